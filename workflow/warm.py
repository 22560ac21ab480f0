"""Kernels that start warm: one process imports what every chapter imports, and forks a kernel for each of them.

The imports are three seconds of one core, a fork is some milliseconds. Of ``lib`` nothing is imported before the
fork: a kernel computes with the library as it is when it starts. Without such a process kernels start as always.
"""

import fcntl
import gc
import json
import os
import platform
import select
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from itertools import count

PLACE = "WARM_KERNELS"  # the variable that says where the process listens
COMMON = ("torch", "torch._dynamo", "numba", "scipy.integrate", "scipy.optimize", "seaborn", "myst_nb")
# Sums in wider registers round otherwise, and a chaotic run amplifies it: the same on every Intel machine, as accepted.
# numba needs no such word: without fastmath its code rounds alike whatever processor it is compiled for (tested).
INSTRUCTIONS = {"ATEN_CPU_CAPABILITY": "avx2", "MKL_CBWR": "AVX2", "OPENBLAS_CORETYPE": "Haswell"}
FEW = 2  # kernels that start cold: where no more are wanted, nothing is gained
INLINE = "module://matplotlib_inline.backend_inline"  # read as matplotlib is imported: with another, figures are lost


def surroundings():
    """Return the variables that libraries read as they are imported."""
    threads = os.environ.get("THREADS") or os.environ.get("OMP_NUM_THREADS") or "1"
    found = {f"{library}_NUM_THREADS": threads for library in ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "VECLIB_MAXIMUM")}
    if platform.machine() in ("x86_64", "AMD64"):
        found |= {name: os.environ.get(name, value) for name, value in INSTRUCTIONS.items()}
    # Threads that wait spin by default: with four of them on a busy machine a chapter of 5 s took 85 s, asleep 6 s.
    return found | {"OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "PASSIVE"), "PYTHONHASHSEED": "0"}


@contextmanager
def warm_kernels():
    """Give chapters that start within the block warm kernels."""
    with tempfile.TemporaryDirectory(prefix="warm-") as private:
        place = os.path.join(private, "kernels")
        # It ends with its input, that is with this process, however this process ends.
        server = subprocess.Popen(
            [sys.executable, __file__, "serve", place],
            stdin=subprocess.PIPE,
            env=os.environ | surroundings() | {"MPLBACKEND": INLINE},
        )
        os.environ[PLACE] = place
        try:
            yield
        finally:
            del os.environ[PLACE]
            server.stdin.close()
            server.wait()


def call(connection):
    """Return the command that starts a kernel for the file ``connection``: a warm one, or else a cold one."""
    return [sys.executable, "-S", "-E", __file__, "ask", os.environ[PLACE], connection]


def ask(place, connection):
    """Stand for a kernel: end as it ends, and take it along when ended."""
    arguments = ["-m", "ipykernel_launcher", "-f", connection]
    with socket.socket(socket.AF_UNIX) as line:
        try:
            line.connect(place)
            wanted = {"arguments": arguments[2:], "environment": dict(os.environ), "folder": os.getcwd()}
            socket.send_fds(line, [b"k"], [0, 1, 2])
            line.sendall(json.dumps(wanted).encode())
            line.shutdown(socket.SHUT_WR)
            started = line.recv(1)
        except OSError:
            started = b""
        if started:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # which comes before the end of a chapter that takes too long
            with suppress(ConnectionResetError):  # what a kernel that was killed leaves
                line.recv(1)  # nothing more comes before the end
            return
    os.execv(sys.executable, [sys.executable, *arguments])


def serve(place):
    """Fork a kernel for each request, until standard input ends."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen(1000)  # requests wait while the imports go on
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # kernels that ended leave nothing to wait for
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupted build ends by itself
        for number in count(1):
            if sys.stdin in select.select([listener, sys.stdin], [], [])[0]:
                break
            line, _ = listener.accept()
            if number > FEW:
                prepare()
                if os.fork() == 0:
                    listener.close()
                    become_kernel(line)
            line.close()  # unanswered, it has to start cold


@cache
def prepare():
    """Import what is slow to import, once."""
    sys.path.pop(0)  # the folder of this file, which no kernel sees
    sys.modules["debugpy"] = None  # slow to import, and not asked for
    for name in ("ipykernel.kernelapp", *COMMON):
        import_module(name)
    sys.modules["numba"].njit("float64(float64)")(lambda number: number)  # sets up its types and LLVM
    gc.freeze()


def become_kernel(line):
    """Run a kernel in this process, with the streams, the environment and the folder of who asks on ``line``."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    _, streams, _, _ = socket.recv_fds(line, 1, 3)
    wanted = json.loads(b"".join(iter(lambda: line.recv(1 << 16), b"")) or sys.exit())
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(wanted["environment"])
    os.chdir(wanted["folder"])
    # Not to be watched: it has another parent than who asks.
    sys.argv = ["ipykernel_launcher", *wanted["arguments"], "--IPKernelApp.parent_handle=1"]
    line.send(b"k")
    # Where the other side ends, the system's signal ends this process and all that it has started.
    fcntl.fcntl(line, fcntl.F_SETOWN, -os.getpid())
    fcntl.fcntl(line, fcntl.F_SETFL, fcntl.fcntl(line, fcntl.F_GETFL) | os.O_ASYNC)
    from ipykernel import kernelapp

    kernelapp.launch_new_instance()
    os._exit(0)


if __name__ == "__main__":
    {"ask": ask, "serve": serve}[sys.argv[1]](*sys.argv[2:])
