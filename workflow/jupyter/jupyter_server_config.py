"""What `make lab` tells Jupyter; the user's own settings stay in force beside it."""

from pathlib import Path

from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager

ROOT = str(Path(__file__).resolve().parents[2])


class Kernels(AsyncMappingKernelManager):
    """Kernels that run where those of the build run, at the root of the project, wherever the notebook lies."""

    def cwd_for_path(self, path, **kwargs):
        """Root of the project."""
        return ROOT


c = get_config()  # noqa: F821 - Jupyter puts it there
c.ServerApp.root_dir = ROOT
c.ServerApp.kernel_manager_class = Kernels
