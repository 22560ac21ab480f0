"""Make the virtual environment from the lock file, called by make before anything is installed.

Without arguments: let the Python that runs this, of conda or Binder for instance, find ``lib``.

Newer syntax than Python 3.6 would hide the one clear line that refuses an old Python.
"""

import os
import subprocess
import sys
import sysconfig

OLDEST, NEWEST = (3, 11), (3, 13)  # the lock has packages without wheels for others
GROUPS = ("figures", "data", "check", "book", "test")  # the others are installed when they are first asked for


def main(folder, stamp):
    """Make or mend the environment in ``folder``; write ``stamp`` last: an interrupted run must not pass for done."""
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        have, oldest, newest = (".".join(map(str, version[:2])) for version in (sys.version_info, OLDEST, NEWEST))
        sys.exit(
            f"Python {oldest} to {newest} is needed; {sys.executable} is {have}. "
            f"Name another one: make PYTHON=python{newest}"
        )
    python = os.path.join(folder, "bin", "python")
    if os.path.exists(stamp):
        os.remove(stamp)
    if not works(python):
        print(f"environment: making {folder} with {sys.executable}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    install(python, os.path.join(folder, "install.log"))
    compile_all(python)
    subprocess.run([python, __file__], check=True)
    with open(stamp, "w", encoding="utf-8"):
        pass
    print("environment: ready", flush=True)


def works(python):
    """Tell whether an earlier call left an environment with pip in it, and its Python is still on the machine."""
    command = [python, "-c", f"import pip, sys; sys.exit(not {OLDEST} <= sys.version_info[:2] <= {NEWEST})"]
    return os.path.exists(python) and subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0


def install(python, log):
    """Install what pyproject.toml asks for, as locked; pip's own words go to ``log``, its progress to the terminal."""
    options = ["--no-compile", "--progress-bar", "off", "-c", "requirements.lock"]  # see compile_all
    command = [python, "-m", "pip", "install", *options, *requirements()]
    print("environment: installing, which takes some minutes the first time", flush=True)
    seen, live = 0, sys.stdout.isatty()
    with open(log, "w", encoding="utf-8") as file:
        pip = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in pip.stdout:
            file.write(line)
            if line.startswith(("Collecting ", "Processing ", "Requirement already satisfied: ")):
                seen += 1
                if live or seen % 25 == 0:
                    print(f"environment: {seen} packages found", end="\r" if live else "\n", flush=True)
            elif line.startswith(("Installing collected", "ERROR")):
                print(f"environment: {line.strip()[:110]}", flush=True)
    if pip.wait():
        sys.exit(f"environment: pip failed, see {log}")


def compile_all(python):
    """Compile what is installed to bytecode, but its tests: pip would do it on one core, and with the tests."""
    ours = "import sysconfig; print(sysconfig.get_path('purelib'))"
    folder = subprocess.run([python, "-c", ours], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    # A package may bring templates that do not compile; pip lets them be, too.
    subprocess.run(
        [python, "-m", "compileall", "-qq", "-j", "0", "-x", r"[/\\](tests?|testing)[/\\]", folder], check=False
    )


def requirements():
    """Return the requirements of the library and of ``GROUPS``."""
    import tomllib  # new in Python 3.11: an older one must get as far as the line that refuses it

    with open("pyproject.toml", "rb") as file:
        project = tomllib.load(file)["project"]
    return sum((project["optional-dependencies"][group] for group in GROUPS), project["dependencies"])


def link():
    """Write the .pth file by which this Python finds ``lib``, wherever a notebook stands."""
    path = os.path.join(sysconfig.get_path("purelib"), "what-attention-selects.pth")
    with open(path, "w", encoding="utf-8") as file:
        file.write(os.getcwd() + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:]) if sys.argv[1:] else link()
