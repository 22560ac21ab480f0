"""Make the virtual environment from the lock file, called by make before anything is installed.

Newer syntax than Python 3.6 would hide the one clear line that refuses an old Python.
"""

import os
import re
import subprocess
import sys

OLDEST = (3, 11)


def main(folder, stamp):
    """Make or mend the environment in ``folder``; write ``stamp`` last: an interrupted run must not pass for done."""
    if sys.version_info < OLDEST:
        have, want = (".".join(map(str, version[:2])) for version in (sys.version_info, OLDEST))
        sys.exit(
            f"Python {want} or later is needed; {sys.executable} is {have}. Name another one: make PYTHON=python{want}"
        )
    python = os.path.join(folder, "bin", "python")
    if os.path.exists(stamp):
        os.remove(stamp)
    if not works(python):
        print(f"environment: making {folder} with {sys.executable}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    install(python, os.path.join(folder, "install.log"))
    with open(stamp, "w", encoding="utf-8"):
        pass
    print("environment: ready", flush=True)


def works(python):
    """Tell whether an earlier call left an environment with pip in it, and its Python is still on the machine."""
    command = [python, "-c", f"import pip, sys; sys.exit(sys.version_info < {OLDEST})"]
    return os.path.exists(python) and subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0


def install(python, log):
    """Install the project as the lock file says; pip's own words go to ``log``, its progress to the terminal."""
    command = [python, "-m", "pip", "install", "--progress-bar", "off", "-c", "requirements.lock", "-e", ".[book,test]"]
    with open("requirements.lock", encoding="utf-8") as lock:
        total = sum("==" in line for line in lock)
    print(f"environment: installing {total} packages, which takes some minutes the first time", flush=True)
    seen, live = 0, sys.stdout.isatty()
    with open(log, "w", encoding="utf-8") as file:
        pip = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in pip.stdout:
            file.write(line)
            found = re.match(r"(?:Collecting|Requirement already satisfied:) ([\w.-]+)", line)
            seen += bool(found)
            if found and (live or seen % 25 == 0):
                print(f"environment: {seen} of {total} {found[1]:<40}", end="\r" if live else "\n", flush=True)
            elif line.startswith(("Installing collected", "ERROR")):
                print(f"environment: {line.strip()[:110]}", flush=True)
    if pip.wait():
        sys.exit(f"environment: pip failed, see {log}")


if __name__ == "__main__":
    main(*sys.argv[1:])
