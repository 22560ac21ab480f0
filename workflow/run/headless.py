"""Run a chapter's code without notebook or kernel, for runs of which only the rows are wanted.

It stands in a process of its own, forked from one that has imported what is slow to import, and gives the rows that the
chapter's notebook would have: same code, same parameters, same surroundings.
"""

import ast
import io
import json
import os
import resource
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout, suppress
from importlib import import_module

from workflow.book.catalogue import BookError
from workflow.book.ledger import MIME
from workflow.run.notebook import environment, one_line
from workflow.setup.compile import LEVEL

COMMON = ("torch", "torch._dynamo", "numba", "scipy.integrate", "scipy.optimize", "seaborn")  # slow to import
MEMORY = 8 * 2**30  # bytes that a run may take: a wrong library may ask for any number


def warm():
    """Import, in the process that will fork, what the library and chapters import; nothing of the library."""
    environment(os.devnull)
    os.environ["MPLBACKEND"] = "agg"
    os.environ.update(LEVEL | os.environ)
    for name in COMMON:
        with suppress(ImportError):  # no chapter can need it then
            import_module(name)


def rows(code, values, library):
    """Return the rows of a chapter, by name, as plain data.

    Parameters
    ----------
    code : list of (str, bool)
        Its code cells, and whether one is that of the parameters: :func:`chapters.code_of`.
    values : dict
        Parameters that differ from the chapter's own.
    library : Path
        The folder in which ``lib`` lies.

    Raises
    ------
    BookError
        If a cell fails, or leaves no rows; one line says which, and why.
    """
    sys.path[:] = [str(library), *(place for place in sys.path if place not in ("", os.getcwd()))]
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    found, namespace = [], {"__name__": "__main__", "display": lambda *shown: [keep(one) for one in shown]}

    def keep(shown):
        if hasattr(shown, "_repr_mimebundle_"):
            found.extend(json.loads(json.dumps(shown._repr_mimebundle_().get(MIME, []))))

    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not any(has_parameters for _, has_parameters in code):
            namespace |= values
        for number, (source, has_parameters) in enumerate(code, 1):
            try:
                keep(_last_value(source, namespace))
            except BaseException as error:
                raise BookError(f"cell {number}: {one_line(f'{type(error).__name__}: {error}')}") from error
            namespace |= values if has_parameters else {}
            if "matplotlib.pyplot" in sys.modules:
                sys.modules["matplotlib.pyplot"].close("all")
    if not found:
        raise BookError("it leaves no claims")
    return {row["name"]: row for row in found}


def _last_value(source, namespace):
    """Run a cell; the value of its last line where that is an expression, as a notebook shows it."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), namespace)
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), namespace) if last else None
