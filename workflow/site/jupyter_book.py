"""Call Jupyter Book on a staged tree."""

import os
import re
import subprocess
import sys
from pathlib import Path

TOOL = "from jupyter_book.cli.main import main; main()"  # its script names the folder that it was installed in


def jupyter_book(staged, output, log, *flags):
    """Build the staged tree; return the lines to show if that fails."""
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", TOOL, "build", staged, "--path-output", output, *flags]
    env = os.environ | {"PYTHONUTF8": "1", "PYTHONIOENCODING": "utf-8"}  # whatever the terminal's encoding
    with log.open("w", encoding="utf-8") as file:
        status = subprocess.run(command, env=env, stdout=file, stderr=subprocess.STDOUT, check=False).returncode
    if status == 0:
        return []
    here = re.compile(rf"\x1b\[[0-9;]*m|{re.escape(str(staged.resolve()))}/?|{re.escape(str(Path.cwd()))}/")
    lines = [here.sub("", line) for line in log.read_text("utf-8", "replace").splitlines()]
    return [line for line in lines if re.search(r"WARNING|ERROR|CRITICAL|[Ee]rror:", line)] or lines[-20:]
