"""Import once what every chapter imports, for all runs of a command; fork the kernels of chapters from there.

The server of ``multiprocessing`` imports this module, and each run is a process forked from it. That one forks its
kernel before it starts any thread. No module of the book is imported here: each kernel imports the library anew.
"""

import multiprocessing
import os
import signal
import sys
from importlib import import_module

from jupyter_client import AsyncKernelManager
from jupyter_client.provisioning import LocalProvisioner

OURS = ("lib", "heads", "studies", "workflow", "__mp_main__")
sys.modules["debugpy"] = None  # as in the settings of a kernel that is started cold
# Not pyplot, which looks for IPython's shell as it is imported, and what imports it.
for module in (
    "IPython.core.interactiveshell", "ipykernel.kernelapp", "jupytext", "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg", "numba", "numpy", "pandas", "papermill", "scipy.integrate", "scipy.stats",
    "sphinx_external_toc.parsing", "torch", "yaml",
):  # fmt: skip
    import_module(module)
PATH = sys.path[sys.path.index(os.path.dirname(os.__file__)) :]  # of a kernel: what stands before is for us


class Kernel:
    """A process that becomes a kernel when it is told how; of `subprocess.Popen` it has what a provisioner calls."""

    stdin = stdout = stderr = status = None

    def __init__(self):
        told, self.tell = multiprocessing.Pipe(duplex=False)
        sys.stdout.flush()
        self.pid = os.fork()
        if not self.pid:
            self.tell.close()
            _become_kernel(told)
        told.close()

    def poll(self):
        """Exit status, None while it runs."""
        if self.status is None and (ended := os.waitpid(self.pid, os.WNOHANG))[0]:
            self.status = os.waitstatus_to_exitcode(ended[1])
        return self.status

    wait = poll  # called once it has ended

    def send_signal(self, number):
        """Send a signal to the kernel and all that it started."""
        os.killpg(self.pid, number)


class Provisioner(LocalProvisioner):
    """Tell the waiting process of a manager to become its kernel."""

    async def launch_kernel(self, cmd, **options):
        """Hand over the words after the name of ipykernel's module, and the environment."""
        self.process = self.parent.kernel
        self.process.tell.send((cmd[cmd.index("ipykernel_launcher") + 1 :], options["env"]))
        return self.connection_info


def manager(kernel):
    """Class of managers that start this kernel, for nbclient to make one of."""

    class Manager(AsyncKernelManager):
        def __init__(self, **options):
            super().__init__(**options)
            self.kernel = kernel
            self.provisioner = Provisioner(kernel_id=self.kernel_id, kernel_spec=self.kernel_spec, parent=self)

    return Manager


def _become_kernel(told):
    """Wait for the words, and run a kernel in a session of its own, as one that is started cold."""
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        words, variables = told.recv()
        os.environ.clear()
        os.environ.update(variables)
        sys.path[:], sys.argv[:] = PATH, ["ipykernel_launcher", *words]
        for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
            del sys.modules[name]
        sys.modules["numpy"].random.seed()  # otherwise what is drawn without a seed is the same in every chapter
        sys.modules["torch"].seed()
        sys.modules["ipykernel.kernelapp"].IPKernelApp.launch_instance(words, parent_handle=os.getppid())
    except EOFError:  # the run ended before its first cell
        pass
    finally:
        os._exit(0)
