"""Compile loops with numba: the decorator of everything that is compiled, and the threads that call it.

numba keeps machine code in ``__pycache__`` beside a module, in the user's cache folder where that cannot be written, or
in NUMBA_CACHE_DIR. By itself it recompiles a function when the function's own file changes, and misses a change of a
helper in another file. The key here is the hash of all compiled sources of the library, and of the function's own file,
which may stand elsewhere.
"""

import hashlib
import logging
import re
from concurrent.futures import ThreadPoolExecutor
from functools import cache, wraps
from pathlib import Path
from threading import Lock

import numpy as np
import torch
from numba import config, njit, types
from numba.core import event
from numba.core.caching import FunctionCache, InTreeCacheLocator, UserProvidedCacheLocator, UserWideCacheLocator

LOG = logging.getLogger(__name__)
TEXTS = [path.read_bytes() for path in sorted(Path(__file__).parent.rglob("[!.]*.py"))]  # no dotfile of an editor
# Sources of compiled code: what is decorated, the formula of rules.py, and the codes of losses.py.
MARK = re.compile(rb"^@compiled|^def (compiled|step_length)\b|^LOGISTIC,", re.MULTILINE)
STAMP = hashlib.sha256(b"".join(text for text in TEXTS if MARK.search(text))).hexdigest()
ENTRIES, LOCK = [], Lock()


class Locator:
    """Find the folder where numba would keep a function's code, and let the sources say whether that code is fresh."""

    @staticmethod
    def from_function(function, file):
        """A locator of numba's, or None where no folder can be written."""
        kinds = UserProvidedCacheLocator, InTreeCacheLocator, UserWideCacheLocator
        locator = next(filter(None, (kind.from_function(function, file) for kind in kinds)), None)
        if locator:
            stamp = hashlib.sha256(STAMP.encode() + Path(file).read_bytes()).hexdigest()
            locator.get_source_stamp = lambda: stamp
            locator.get_disambiguator = lambda: stamp[:16]  # numba cannot read an index whose classes are gone
        return locator


class _Cache(FunctionCache):
    """Code that numba has kept; a file of it that is damaged counts as not there."""

    def load_overload(self, sig, target_context):
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # whatever half a pickle raises
            self.flush()
            return None


class _Compiling(event.Listener):
    """Log a warning when numba starts to compile; loading from the cache is no such event."""

    def on_start(self, event):
        _announce()

    def on_end(self, event):
        pass


@cache  # once in a process
def _announce():
    LOG.warning(
        "compiling the loops of the library, a minute or two of one core; later processes load them, if there is a"
        " folder where numba can keep them (NUMBA_CACHE_DIR)"
    )


def compiled(*signature):
    """A decorator like ``numba.njit``, for functions that run without the GIL and are cached where possible.

    The first function of a process that is compiled, not loaded, logs a warning, because the caller has to wait.
    A division by zero gives an infinity or a NaN, as NumPy's does.

    Parameters
    ----------
    *signature : str, or numba types
        Of a function that Python calls: as one string, or the type of each argument, which may be a named tuple whose
        fields are annotated with such types. It is compiled or loaded at its first call, or by :func:`compile_all`, and
        arguments of any other type are a TypeError. Without a signature compiled functions call it, and numba compiles
        it for whatever types they give.

    Returns
    -------
    callable
        The decorator. Where no cache can be written, what it decorates is compiled in every process that calls it.
    """

    def decorate(function):
        dispatcher = _dispatcher(function)
        if not signature:
            return dispatcher

        def ready():
            with LOCK, event.install_listener("numba:compile", _Compiling()):
                if not dispatcher.overloads:
                    dispatcher.compile(signature[0] if isinstance(signature[0], str) else tuple(map(_type, signature)))
                    dispatcher.disable_compile()

        @wraps(dispatcher, updated=())
        def entry(*arguments):
            if not dispatcher.overloads:
                ready()
            return dispatcher(*arguments)

        ENTRIES.append((function.__module__, ready))
        return entry

    return decorate


def _dispatcher(function):
    """Wrap a function by ``njit``; numba looks for locators by their names, and its settings are put back.

    It compiles where NUMBA_DISABLE_JIT is set, too: as Python the loops would take hours.
    """
    others = config.CACHE_LOCATOR_CLASSES, config.DISABLE_JIT
    config.CACHE_LOCATOR_CLASSES, config.DISABLE_JIT = f"{__name__}.{Locator.__name__}", 0
    dispatcher = njit(nogil=True, error_model="numpy")(function)
    try:
        dispatcher._cache = _Cache(function)
    except RuntimeError:  # no folder for a cache can be written
        pass
    finally:
        config.CACHE_LOCATOR_CLASSES, config.DISABLE_JIT = others
    return dispatcher


def _type(kind):
    """Numba's type of a named tuple by those of its fields, or the type itself."""
    if isinstance(kind, types.Type):
        return kind
    return types.BaseTuple.from_types([_type(field) for field in kind.__annotations__.values()], kind)


def compile_all(module=None):
    """Compile, or load from the cache, every function with a signature of a module, or of all that are imported."""
    for name, ready in ENTRIES:
        if module in (None, name):
            ready()


def in_threads(count, call, block=1):
    """Call with the first and the last of parts of so many problems, whole blocks, on torch's number of threads."""
    threads, blocks = torch.get_num_threads(), -(-count // block)
    if threads == 1 or blocks < 2:
        call(0, count)
    else:
        parts = min(4 * threads, blocks)  # more than threads: a core that is held up leaves some to the others
        bounds = np.minimum(block * np.linspace(0, blocks, parts + 1).astype(int), count)
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(call, bounds[:-1], bounds[1:]))
