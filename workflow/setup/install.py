"""Make the virtual environment from the lock file, called by make before anything is installed.

With ``--here``: do the same in the Python that runs this, of conda or Binder; with ``--tests``: add what tests need.
Without arguments: let it find ``lib``; with ``--moved``: so where it belongs to this folder, which may have moved.

Newer syntax than Python 3.6 would hide the one clear line that refuses an old Python.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
import sysconfig

OLDEST, NEWEST = (3, 11), (3, 14)  # for other Pythons some locked packages have no wheels
GROUPS = ("figures", "data", "check", "book")  # extras that the book needs
CPU = ("--torch-backend", "cpu", "--no-deps")  # uv knows the index of CPU builds


def main(folder, stamp):
    """Make or mend the environment in ``folder``; write ``stamp`` last: an interrupted run must not pass for done."""
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        have, oldest, newest = (".".join(map(str, version[:2])) for version in (sys.version_info, OLDEST, NEWEST))
        remedy = f"name another one, make PYTHON=python{newest}, or get one: uv python install {newest}"
        sys.exit(f"Python {oldest} to {newest} is needed; {sys.executable} is {have}: {remedy}")
    try:
        make(folder, stamp)
    except (OSError, subprocess.CalledProcessError) as error:  # the command has printed its error
        sys.exit(f"environment: {error}")


def make(folder, stamp):
    """Make or mend the environment with a supported Python."""
    python = os.path.join(folder, "bin", "python")
    if os.path.exists(stamp):
        os.remove(stamp)
    if not works(python):
        print(f"environment: making {folder} with {sys.executable}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    install(python, os.path.join(folder, "install.log"), GROUPS)
    subprocess.run([python, __file__], check=True)
    with open(stamp, "w", encoding="utf-8"):
        pass
    print("environment: ready", flush=True)


def add_tests(stamp):
    """Install what tests, browser and report on models need, besides, into the Python that runs this."""
    install(sys.executable, os.path.join(sys.prefix, "install-tests.log"), ("test",))
    with open(stamp, "w", encoding="utf-8"):
        pass


def works(python):
    """Tell whether an earlier call left an environment with pip in it, and its Python is still on the machine."""
    command = [python, "-c", f"import pip, sys; sys.exit(not {OLDEST} <= sys.version_info[:2] <= {NEWEST})"]
    return os.path.exists(python) and subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0


def here():
    """Install into the Python that runs this, JupyterLab too."""
    install(sys.executable, os.path.join(sys.prefix, "install.log"), (*GROUPS, "test", "lab"))
    link()


def install(python, log, groups):
    """Install what pyproject.toml asks for, in the versions of the lock."""
    print(f"environment: installing {', '.join(groups)}, which takes some minutes the first time", flush=True)
    pip = [python, "-m", "pip", "install", "--no-compile", "--progress-bar", "off"]  # most modules are never imported
    pip += ["-c", "requirements.lock"]
    with open(log, "w", encoding="utf-8") as file:
        if sys.platform == "linux" and asks_for_gpu(pip):
            uv = [os.path.join(os.path.dirname(python), "uv"), "pip", "install", "--python", python]
            if follow([*pip, "uv"], file) or follow([*uv, *CPU, "-c", "requirements.lock", "torch"], file):
                print("environment: there is no CPU build of torch to be had, so pip brings the larger one", flush=True)
        if follow([*pip, *requirements(groups)], file):
            sys.exit(f"environment: pip failed, see {log}")


def asks_for_gpu(pip):
    """Tell whether the torch that pip would install now needs packages for GPUs, which nothing here uses."""
    ask = [*pip, "--dry-run", "--quiet", "--no-deps", "--report", "-", "torch"]
    done = subprocess.run(ask, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    report = json.loads(done.stdout) if done.returncode == 0 else {"install": []}
    needs = [line for package in report["install"] for line in package["metadata"].get("requires_dist", [])]
    return any(line.startswith(("nvidia", "cuda", "triton")) for line in needs)


def follow(command, log):
    """Run a command, whose output goes to ``log`` and whose steps go to the terminal; return its exit status."""
    steps = re.compile(r" *(Downloading .*MB\)|Installing collected|ERROR)")  # downloads of megabytes
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout:
            log.write(line)
            if steps.match(line):
                print(f"environment: {line.strip()[:110]}", flush=True)
    return process.returncode


def requirements(groups):
    """Requirements of the library and of groups of extras."""
    import tomllib  # new in Python 3.11: an older one must get as far as the line that refuses it

    with open("pyproject.toml", "rb") as file:
        project = tomllib.load(file)["project"]
    return sum((project["optional-dependencies"][group] for group in groups), project["dependencies"])


def install_extra(name, module):
    """Install an extra of pyproject.toml, which one command alone needs, unless its module is there already."""
    import tomllib

    if importlib.util.find_spec(module):
        return
    print(f"environment: installing {module}", flush=True)
    with open("pyproject.toml", "rb") as file:
        extra = tomllib.load(file)["project"]["optional-dependencies"][name]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--constraint", "requirements.lock"]
    status = subprocess.run([*pip, *extra], check=False).returncode
    if status:
        sys.exit(f"environment: {module} was not installed, pip ended with status {status}")


def link():
    """Write the .pth file by which this Python finds ``lib``, wherever a notebook stands."""
    path, place = os.path.join(sysconfig.get_path("purelib"), "what-attention-selects.pth"), os.getcwd() + "\n"
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            if file.read() == place:
                return
    with open(path, "w", encoding="utf-8") as file:
        file.write(place)


if __name__ == "__main__":
    if sys.argv[1:] == ["--moved"]:
        if os.path.dirname(os.path.realpath(sys.prefix)) == os.getcwd():
            link()
    elif sys.argv[1:] == ["--here"]:
        here()
    elif sys.argv[1:2] == ["--tests"]:
        add_tests(sys.argv[2])
    else:
        main(*sys.argv[1:]) if sys.argv[1:] else link()
