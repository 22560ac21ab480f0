"""Open the chapters as notebooks in JupyterLab: what is saved there goes back into their sources.

Each chapter is paired by jupytext with a notebook under ``build/lab``, which keeps the outputs, at first those of
the last build. JupyterLab could open the .md files, but would lose their outputs with the tab, and would open pages of
prose as notebooks and add a header to them on saving.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from workflow.book.catalogue import chapters, find, source
from workflow.commands import call
from workflow.run.notebook import JUPYTER

MODULE = (sys.executable, "-m")  # scripts name the folder that they were installed in


def pair():
    """Make the notebooks anew from the sources; a cell whose code is the same keeps its outputs."""
    for chapter in chapters():
        notebook, run = (Path("build", folder, chapter + ".ipynb") for folder in ("lab", "executed"))
        if run.exists() and not notebook.exists():
            notebook.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(run, notebook)
        if notebook.exists():
            os.utime(notebook, (0, 0))  # jupytext takes the younger file: always the source
    subprocess.run([*MODULE, "jupytext", "--quiet", "--sync", *map(source, chapters())], check=True)


def main():
    """Open the chapter that the command line names, or the folder of all of them."""
    opened = find(sys.argv[1]) + ".ipynb" if sys.argv[1:] and sys.argv[1] else ""
    try:
        pair()
    except subprocess.CalledProcessError as error:
        sys.exit(f"JupyterLab was not started: {error.cmd[2]} ended with status {error.returncode}")
    for name in ("JUPYTER_CONFIG_PATH", "JUPYTER_PATH"):  # our settings and our kernel
        os.environ[name] = os.pathsep.join([JUPYTER, *filter(None, [os.environ.get(name)])])
    os.execv(sys.executable, [*MODULE, "jupyterlab", str(Path("build/lab", opened)), *sys.argv[2:]])


if __name__ == "__main__":
    call(main)
