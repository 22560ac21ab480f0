"""Run a command beside a SLURM of its own: one node, this machine, for as long as the command runs.

The programs are Debian's. Configuration, key, ports and state are in a temporary folder, and all processes, the jobs'
too, in a namespace that ends with this one, however it ends: nothing stays, and a SLURM that is there is not touched.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PACKAGES = ("slurm-wlm", "munge")
SPACE = ("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
# Over /etc/slurm, since jobs do not inherit SLURM_CONF. The shell stays, because the first process of a namespace has
# to take leave of orphans.
INSIDE = 'mount --bind "$0" /etc/slurm && "$@"; exit $?'
# More processors and memory than there may be, for tiny runs; and a GPU in name, to see who asks for one.
CONFIGURATION = """\
ClusterName=book
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=5
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=32000 Gres=gpu:1
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def main(command):
    """Run the command; return its status."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # by way of the end of the block below
    os.environ["PATH"] += ":/usr/local/sbin:/usr/sbin:/sbin"
    if why := obstacle():
        return f"make test-cluster makes a SLURM of its own, as root on Debian: {why}"
    install()
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder:
        configure(Path(folder))
        again = [*SPACE, "sh", "-c", INSIDE, folder, sys.executable, __file__, "--inside", folder, *command]
        return subprocess.run(again, check=False).returncode


def obstacle():
    """Return what stands against it on this machine, if anything."""
    if not Path("/etc/debian_version").exists() or not shutil.which("apt-get"):
        return "this system is another one"
    if os.geteuid():
        return "you are not root"
    tried = subprocess.run([*SPACE, "true"], capture_output=True, text=True, check=False)
    return f"no namespace may be made here ({tried.stderr.strip()})" if tried.returncode else ""


def install():
    """Install what is not there; its services are not started."""
    if all(shutil.which(tool) for tool in ("slurmctld", "slurmd", "munged", "squeue")):
        return
    print(f"cluster: installing {' and '.join(PACKAGES)}", flush=True)
    apt = ["apt-get", "--quiet", "--quiet"]
    quiet = {"env": os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}, "stdout": subprocess.DEVNULL}
    for arguments in (["update"], ["install", "--yes", "--no-install-recommends", *PACKAGES]):
        if subprocess.run([*apt, *arguments], check=False, **quiet).returncode:
            sys.exit(f"cluster: apt-get {arguments[0]} failed: see above what it says")


def configure(folder):
    """Write the configuration, a key, and the ports, which are free now."""
    folder.chmod(0o755)
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        ports = {"controller": one.getsockname()[1], "node": other.getsockname()[1]}
    host = socket.gethostname().partition(".")[0]
    (folder / "slurm.conf").write_text(CONFIGURATION.format(folder=folder, host=host, **ports))
    (folder / "gres.conf").write_text("Name=gpu File=/dev/null\n")
    (folder / "munge.key").touch(0o600)
    (folder / "munge.key").write_bytes(os.urandom(128))
    for name in ("state", "spool"):
        (folder / name).mkdir()


def inside(folder, *command):
    """Start the cluster and run the command, in the namespace, whose end is that of the cluster."""
    files = (f"--{name}={folder}/munge.{kind}" for name, kind in (("socket", "socket"), ("key-file", "key")))
    others = (f"--{kind}-file={folder}/munge.{kind}" for kind in ("log", "pid", "seed"))
    start(folder, "munged", "--foreground", "--force", *files, *others)
    until(Path(folder, "munge.socket").exists, folder)
    start(folder, "slurmctld", "-D")
    start(folder, "slurmd", "-D")
    until(lambda: "idle" in said("sinfo", "--noheader", "--format=%t"), folder)
    return subprocess.run(command, env=os.environ | {"SLURM_OF_THE_TESTS": folder}, check=False).returncode


def start(folder, *command):
    """Start a program; what it says goes to ``folder``."""
    with open(f"{folder}/{command[0]}.said", "w") as log:
        subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def until(condition, folder):
    """Wait until something is up; show what all programs said if it does not come up."""
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            for log in Path(folder).glob("*.said"):
                print(f"--- {log.name}\n{log.read_text()[-3000:]}", file=sys.stderr)
            sys.exit("cluster: it did not come up within a minute: see above what its programs said")
        time.sleep(0.2)


def said(*command):
    """Return what a command prints; nothing where it fails."""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


if __name__ == "__main__":
    sys.exit(inside(*sys.argv[2:]) if sys.argv[1:2] == ["--inside"] else main(sys.argv[1:]))
