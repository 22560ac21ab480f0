"""Make the virtual environment from the lock, called by make before anything is installed.

With ``--here``: do the same in the Python that runs this, of conda or Binder. Without arguments: let it find ``lib``.

Newer syntax than Python 3.6 would hide the one clear line that refuses an old Python.
"""

import ast
import json
import os
import re
import subprocess
import sys
import sysconfig
from importlib import import_module

OLDEST, NEWEST = (3, 11), (3, 14)  # for other Pythons some locked packages have no wheels
# Settings of pip that say how packages are reached; a user's others are meant for other environments than this one.
REACH = re.compile(
    "(extra-)?index-url|no-index|find-links|trusted-host|(client-)?cert|proxy|keyring-provider|use-(feature|deprecated)"
    "|(default-)?timeout|retries|(no-)?cache-dir"
)
# What a broken environment fails at: packages with compiled code, and the tools of the book.
IMPORTED = ("torch", "numba", "scipy.linalg", "sklearn", "cvxpy", "pandas", "matplotlib", "papermill", "jupyter_book")


def main(folder):
    """Make or mend the environment in ``folder``."""
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        have, oldest, newest = (".".join(map(str, version[:2])) for version in (sys.version_info, OLDEST, NEWEST))
        remedy = f"name another one, make PYTHON=python{newest}, or get one: uv python install {newest}"
        sys.exit(f"Python {oldest} to {newest} is needed; {sys.executable} is {have}: {remedy}")
    try:
        if not works(folder):
            print(f"environment: making {folder} with {sys.executable}", flush=True)
            subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        install(folder)
    except (OSError, subprocess.CalledProcessError) as error:  # the command has printed its error
        sys.exit(f"environment: {error}")


def works(folder):
    """Tell whether an earlier call made this environment at this place, and its Python is still on the machine."""
    python, made = os.path.join(folder, "bin", "python"), os.path.join(folder, "pyvenv.cfg")
    if not os.path.exists(python) or not os.path.exists(made):
        return False
    with open(made, encoding="utf-8") as file:  # the last line is the command that made it
        if not file.read().endswith(f" {os.path.abspath(folder)}\n"):
            return False  # moved or copied: its scripts name another folder
    command = [python, "-c", f"import pip, sys; sys.exit(not {OLDEST} <= sys.version_info[:2] <= {NEWEST})"]
    return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0


def install(prefix):
    """Install the lock by its hashes, then torch, which stands there without, and see that both can be imported."""
    print("environment: installing, which takes some minutes the first time", flush=True)
    python, hashed, log = (os.path.join(prefix, name) for name in ("bin/python", "hashed.txt", "install.log"))
    with open("requirements.lock", encoding="utf-8") as lock, open(hashed, "w", encoding="utf-8") as file:
        lines = lock.readlines()
        file.writelines(line for line in lines if not line.startswith("torch=="))
    (torch,) = (line.strip() for line in lines if line.startswith("torch=="))
    kept = settings(python)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        del os.environ[name]
    os.environ.update(kept)
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off"]
    pip += ["--no-compile"]  # most modules are never imported
    with open(log, "w", encoding="utf-8") as file:
        if follow([*pip, "--no-deps", "--require-hashes", "-r", hashed], file) or install_torch(pip, torch, file):
            sys.exit(f"environment: pip failed, see {log}")
    if subprocess.run([python, "-I", __file__], check=False).returncode:
        sys.exit(1)  # it has said why
    print("environment: ready", flush=True)


def settings(python):
    """Variables that give pip those of a user's settings that `REACH` names, and no file with others."""
    whole = {
        "PIP_USER": "0",
        "PIP_GLOBAL": "0",
        "PIP_SITE": "0",
        "PIP_QUIET": "0",
    }  # else pip lists one file, or nothing
    command, env = [python, "-m", "pip", "config", "list"], {**os.environ, **whole}
    listed = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", env=env, check=True).stdout
    found = re.findall(r"^(global|install|:env:)\.([\w-]+)=(.*)$", listed, re.MULTILINE)
    found.sort(key=lambda setting: ("global", "install", ":env:").index(setting[0]))  # the last of a name counts
    kept = [("PIP_" + name.upper().replace("-", "_"), text) for _, name, text in found if REACH.fullmatch(name)]
    return {"PIP_CONFIG_FILE": os.devnull, **{name: ast.literal_eval(text) for name, text in kept}}


def install_torch(pip, torch, log):
    """Install torch as a CPU build if one is to be had, first by the user's settings of pip; return the exit status."""
    if sys.platform == "linux" and asks_for_gpu([*pip, torch]):
        uv = [os.path.join(os.path.dirname(pip[0]), "uv"), "pip", "install", "--python", pip[0], "--no-deps"]
        if not follow([*uv, "--torch-backend", "cpu", torch], log):  # uv knows the index of CPU builds
            return 0
        print("environment: there is no CPU build of torch to be had, so pip brings the larger one", flush=True)
    return follow([*pip, torch], log)  # all that it needs is there from the lock, but for packages for GPUs


def asks_for_gpu(pip):
    """Tell whether the torch that pip would install now needs packages for GPUs, which nothing here uses."""
    ask = [*pip, "--dry-run", "--quiet", "--no-deps", "--report", "-"]
    done = subprocess.run(ask, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8", check=False)
    if done.returncode:
        return True  # pip finds no such version, or is older than 22.2 and cannot tell
    packages = json.loads(done.stdout)["install"]
    needs = [line for package in packages for line in package["metadata"].get("requires_dist", [])]
    return any(line.startswith(("nvidia", "cuda", "triton")) for line in needs)


def follow(command, log):
    """Run a command, whose output goes to ``log`` and whose steps go to the terminal; return its exit status."""
    steps = re.compile(r" *(Downloading .*MB\)|Installing collected|ERROR)")  # downloads of megabytes
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8") as process:
        for line in process.stdout:
            log.write(line)
            if steps.match(line):
                print(f"environment: {line.strip()[:110]}", flush=True)
    return process.returncode


def link():
    """Write the .pth file by which this Python finds ``lib``, wherever a notebook stands."""
    path = os.path.join(sysconfig.get_path("purelib"), "what-attention-selects.pth")
    with open(path, "w", encoding="utf-8") as file:
        file.write(os.getcwd() + "\n")


def imports():
    """Import what a broken environment fails at, or say in one line what cannot be imported."""
    for name in IMPORTED:
        try:
            import_module(name)
        except Exception as error:
            sys.exit(f"environment: {name} cannot be imported ({error}): delete {sys.prefix} and begin again")


if __name__ == "__main__":
    if sys.argv[1:] == ["--here"]:
        install(sys.prefix)
    elif sys.argv[1:]:
        main(sys.argv[1])
    else:
        link()
        imports()
