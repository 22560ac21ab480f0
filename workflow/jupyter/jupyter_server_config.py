"""Settings of Jupyter for `make lab`, in addition to the user's."""

from pathlib import Path

from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager

ROOT = str(Path(__file__).resolve().parents[2])


class Kernels(AsyncMappingKernelManager):
    """Kernels that run at the root of the project, as in a build, wherever the notebook lies."""

    def cwd_for_path(self, path, **kwargs):
        """Root of the project."""
        return ROOT


c = get_config()  # noqa: F821 - Jupyter puts it there
c.ServerApp.root_dir = ROOT
c.ServerApp.kernel_manager_class = Kernels
