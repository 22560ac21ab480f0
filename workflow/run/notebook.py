"""Run a notebook with papermill, so that a failure is one line: which cell, where it stands in the source, and why."""

import json
import logging
import math
import os
import platform
import re
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import jupytext
import nbformat
import papermill
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from papermill.engines import NBClientEngine, papermill_engines
from papermill.exceptions import PapermillExecutionError
from traitlets.config import Config

from workflow.book.catalogue import BookError, source
from workflow.book.dependencies import PACKAGES, PROJECT

TIMEOUT = 600  # seconds for a whole chapter; TIMEOUT=… changes it
ANSI = re.compile(r"\x1b\[[0-9;]*m")
# Run by IPython as the kernel starts: what the library logs goes to the terminal, and nothing of it into the notebook.
# An optimiser of torch that is made marks a method as not to be compiled, for which torch imports its whole compiler,
# in two seconds. Marked after the cell that has imported torch, as it would mark it, it imports none.
STARTUP = """
import logging, sys
def mark_optimiser(result):
    import sys
    if optim := sys.modules.get("torch.optim"):
        get_ipython().events.unregister("post_run_cell", mark_optimiser)
        if method := getattr(optim.Optimizer.add_param_group, "__wrapped__", None):
            method.__dynamo_disable = method
get_ipython().events.register("post_run_cell", mark_optimiser)
class Progress(logging.StreamHandler):
    after = 0.0
    def emit(self, record):
        if record.created > self.after:
            super().emit(record)
            self.after = record.created + {pause}
progress = Progress(sys.__stdout__)
progress.setFormatter(logging.Formatter("{chapter}: %(message)s"))
for package in {packages}:
    logging.getLogger(package).addHandler(progress)
    logging.getLogger(package).setLevel(logging.INFO)
del logging, sys, Progress, package, progress
"""
# Read by IPython before it makes the kernel. Skip debugpy: importing it takes longer than starting the kernel.
# Figures are drawings for the page and pictures for all else, of the size that they ask for, and the same in each run.
SETTINGS = """
import sys
sys.modules["debugpy"] = None
c = get_config()
c.IPKernelApp.capture_fd_output = False
c.InlineBackend.figure_formats = {"svg", "png"}
c.InlineBackend.print_figure_kwargs = {"bbox_inches": None, "metadata": {"Date": None}}
"""
# Sums in wider registers round otherwise, and a chaotic run amplifies it: the same on every Intel machine, as accepted.
# numba needs no variable: without fastmath its code rounds alike on every processor (tested).
INSTRUCTIONS = {"ATEN_CPU_CAPABILITY": "avx2", "MKL_CBWR": "AVX2", "OPENBLAS_CORETYPE": "Haswell"}
# The folder of our kernel, searched before all others on the machine; its "python" is this interpreter.
JUPYTER = str(Path(__file__).parents[1] / "jupyter")
OPTIONS = {"engine_name": "saved-once", "kernel_name": "python3", "progress_bar": False, "shutdown_kernel": "immediate"}
# A user's variables for Python, IPython, Jupyter and matplotlib, none of which reaches a chapter; those on where Python
# stores bytecode change no run.
USER_SETTINGS = re.compile(
    r"(?!PYTHON(DONTWRITEBYTECODE|PYCACHEPREFIX)$)(PYTHON|IPYTHON|JUPYTER|MPLBACKEND|MATPLOTLIBRC)"
)
# Folders of settings for all users, which IPython reads and has no option to ignore.
MACHINE_FOLDERS = ("/etc/ipython", "/usr/local/etc/ipython", os.path.join(sys.prefix, "etc/ipython"))
LOG_INTERVAL_S = 5  # at least, between two lines of progress
MAX_FOLDER = 80  # characters of a folder for sockets: their paths are some twenty longer and may have 103
MAX_OUTPUT = 10_000_000  # characters of a cell's output; the largest notebook of the book has one million
MAX_PIECES = 1000  # ZeroMQ queues 2000, and silently drops what comes faster than it is read


class CutOff(BookError):
    """A run that something outside the chapter ended: its time, a kernel that was killed, the machine."""

    cut_off = True


class SavedOnce(NBClientEngine):
    """papermill's engine, which saves the notebook before and after every cell, text too: here at the end."""

    @classmethod
    def execute_managed_notebook(cls, nb_man, kernel_name, **options):
        """Run the cells and save, however that ends: a failed run leaves its notebook as evidence."""
        path, nb_man.output_path = nb_man.output_path, None
        try:
            return super().execute_managed_notebook(nb_man, kernel_name, **options)
        finally:
            nb_man.output_path = path
            nb_man.save()


papermill_engines.register(OPTIONS["engine_name"], SavedOnce)


def execute(chapter, plain, done, values, private, stderr=None):
    """Run the notebook ``plain`` into ``done``; raise `BookError` naming the cell that failed.

    The folder ``private`` is for sockets. What the library logs is printed as it comes; what cells write to standard
    error goes to the file ``stderr``, too.
    """
    logging.getLogger().addHandler(logging.NullHandler())  # nbclient logs what its error says
    limit = time_limit()
    running = {}  # a dead kernel's error does not say which cell killed it

    def left(cell):
        return max(running.setdefault("deadline", time.monotonic() + limit) - time.monotonic(), 0.001)

    environment(str(private), chapter)
    config = Config()
    # Sockets in a private folder: TCP ports collide between parallel chapters, and so does ipc's default folder.
    config.KernelManager.transport, config.KernelManager.ip = "ipc", os.path.join(private, "k")
    if warm := sys.modules.get("workflow.run.warm"):  # this process is forked from one that has imported it
        config.NotebookClient.kernel_manager_class = warm.manager(warm.Kernel())
    seen = {"timeout_func": left, "on_cell_execute": lambda cell, cell_index: running.update(cell=cell)}
    # A kernel on a slow disk, or a cell that printed much, may take as long as the chapter itself.
    waits = {"start_timeout": math.ceil(limit), "iopub_timeout": math.ceil(limit)}
    asked = {"parameters": values, "stderr_file": stderr, "config": config} | seen | waits
    try:
        papermill.execute_notebook(str(plain), str(done), **asked, **OPTIONS)
    except PapermillExecutionError as error:
        place, problem = raised(chapter, done, error)
        raise BookError(f"{place} failed: {one_line(problem)}") from None
    except DeadKernelError:
        why = "the kernel died (killed, or out of memory)"
    except CellTimeoutError as error:
        printed = "IOPub" in str(error)  # nbclient tells it in no other way
        why = "the cell had ended, and its output was not all read" if printed else "the chapter was still running"
        why += f" after {limit:g} s"
    except RuntimeError as error:  # nbclient raises it before the first cell
        raise CutOff(f"the kernel did not start: {one_line(error)}") from None
    else:
        return
    place = where(chapter, running["cell"]["id"]) if "cell" in running else "the start of the kernel"
    raise CutOff(f"{place} failed: {why}")


def raised(chapter, done, error):
    """Place in the source where a cell raised, and the error."""
    cell = json.loads(done.read_text("utf-8"))["cells"][error.cell_index + 2]  # papermill put two cells before it
    text = ANSI.sub("", "\n".join(error.traceback))
    inside = re.search(rf"Cell In\[{error.exec_count}\], line (\d+)", text)
    place = where(chapter, cell["id"], int(inside[1]) if inside else 1)
    return place, f"{error.ename}: {error.evalue}" if error.evalue else error.ename


def time_limit():
    """Seconds that a chapter may take."""
    return float(os.environ.get("TIMEOUT") or TIMEOUT)


def short_folder():
    """Folder for temporary files, with a path short enough for sockets; that of a cluster may not be."""
    asked = tempfile.gettempdir()
    for folder in (asked, "/tmp", "/var/tmp"):
        if len(os.fsencode(folder)) <= MAX_FOLDER and os.access(folder, os.W_OK | os.X_OK):
            return folder
    raise BookError(f"TMPDIR is {asked!r}, too long for a socket: set it to a folder of at most {MAX_FOLDER} letters")


def surroundings():
    """Variables that libraries read as they are imported."""
    threads = os.environ.get("THREADS") or os.environ.get("OMP_NUM_THREADS", "").partition(",")[0] or "1"
    variables = {f"{name}_NUM_THREADS": threads for name in ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "VECLIB_MAXIMUM")}
    if platform.machine() in ("x86_64", "AMD64"):
        variables |= {name: os.environ.get(name, value) for name, value in INSTRUCTIONS.items()}
    # Threads that wait spin by default: with four of them on a busy machine a chapter of 5 s took 85 s, asleep 6 s.
    return variables | {"OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "PASSIVE"), "PYTHONHASHSEED": "0"}


@contextmanager
def settled():
    """Give processes that are started meanwhile the same surroundings everywhere, whatever the user's settings."""
    before = dict(os.environ)
    for name in filter(USER_SETTINGS.match, before):
        del os.environ[name]
    os.environ |= surroundings() | {"PYTHONNOUSERSITE": "1", "PYTHONUTF8": "1"}
    os.environ["PYTHONPATH"] = str(PROJECT)  # for these processes; not for kernels
    # The backend is ipykernel's, which sets it where matplotlib has not been imported yet.
    os.environ |= {"MATPLOTLIBRC": os.devnull, "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def environment(private, chapter):
    """Write the settings of a chapter's kernel into the folder ``private``, and tell the kernel to read no others."""
    files = (path for folder in MACHINE_FOLDERS for path in sorted(Path(folder).rglob("*")))
    if read := [path for path in files if path.suffix in (".py", ".ipy", ".json")]:
        raise BookError(f"{read[0]} would change what runs in a chapter: move it away while the book is built")
    profile = Path(private, "profile_default")
    (profile / "startup").mkdir(parents=True)
    (profile / "ipython_kernel_config.py").write_text(SETTINGS, "utf-8")
    startup = STARTUP.format(chapter=chapter, pause=LOG_INTERVAL_S, packages=PACKAGES)
    (profile / "startup/progress.py").write_text(startup, "utf-8")
    os.environ.pop("PYTHONPATH", None)
    os.environ |= {"IPYTHONDIR": private, "JUPYTER_PATH": JUPYTER, "JUPYTER_RUNTIME_DIR": private}


def where(chapter, cell_id, line=1):
    """Place of a line of a cell, ``cell 5 (book/x.md:87, "flow = ...")``."""
    stem, _, number = cell_id.rpartition("-")
    if stem != source(chapter).stem:  # papermill gives the cell that it adds an id of its own
        return "the cell of injected parameters"
    text = source(chapter).read_text("utf-8")
    notebook = jupytext.myst.myst_to_notebook(text, add_source_map=True)
    placed = zip(notebook.cells, notebook.metadata.source_map, strict=True)
    cell, start = [pair for pair in placed if pair[0].cell_type == "code"][int(number) - 1]
    code, lines = cell.source.splitlines() or [""], text.splitlines()
    first = lines.index(code[0], start) + 1  # after the fence and the options of the cell
    return f'cell {number} ({source(chapter)}:{first + line - 1}, "{code[min(line, len(code)) - 1].strip()[:60]}")'


def tidy(path, chapter):
    """Take out of an executed notebook what names this machine or differs between runs; check that every cell ran."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell["id"] = f"{source(chapter).stem}-parameters"
        if cell.cell_type == "code" and cell.source.strip() and cell.execution_count is None:
            raise BookError(f"{where(chapter, cell['id'])} did not run: a cell before it left the kernel")
        if much := too_much(cell.get("outputs", [])):
            raise BookError(f"{where(chapter, cell['id'])} failed: it left {much}: print less")
        cell.metadata.pop("papermill", None)
        cell.metadata.pop("execution", None)
    record = notebook.metadata.papermill
    notebook.metadata.papermill = {key: record[key] for key in ("parameters", "version") if key in record}
    nbformat.write(notebook, path)
    return notebook


def too_much(outputs):
    """Size of a cell's output in words, "" for what a page and the kernel's queue can take."""
    if len(outputs) > MAX_PIECES:
        return f"{len(outputs)} pieces of output, and past {MAX_PIECES} some may be lost"
    size = sum(len(json.dumps(output)) for output in outputs)
    return f"{size / 1e6:.0f} MB of output, and a page takes {MAX_OUTPUT / 1e6:.0f}" if size > MAX_OUTPUT else ""


def one_line(problem):
    """First line of an error, of bearable length."""
    text = ANSI.sub("", str(problem)).strip() or type(problem).__name__
    return text.splitlines()[0][:300]
