"""The decorator of everything that is compiled, and the threads that call it.

numba keeps machine code beside the module, or in the user's folder for caches where that one cannot be written, or
where NUMBA_CACHE_DIR says. It looks for changes in the file of a function only: what a compiled function calls stands
in the same file, and after a change in this one the ``*.nbi`` in ``__pycache__`` have to go.
"""

import logging
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import torch
from numba import njit
from numba.core import event

LOG = logging.getLogger(__name__)


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


def compiled(*signatures, **options):
    """Return ``numba.njit`` for functions that are cached where that is possible and run without the GIL.

    The first function of a process that is compiled here, not loaded, logs a warning, because the caller has to wait.
    A division by zero gives an infinity or a NaN, as NumPy's does.

    Parameters
    ----------
    *signatures : str, or list of str
        As for ``njit``: with one, the function is compiled or loaded as soon as it is defined.
    **options
        More of ``njit``'s.

    Returns
    -------
    callable
        The decorator. Where no cache can be written, what it decorates is compiled in every process that calls it.
    """

    def decorate(function):
        with event.install_listener("numba:compile", _Compiling()):
            try:
                return njit(*signatures, cache=True, nogil=True, error_model="numpy", **options)(function)
            except RuntimeError:  # no folder for a cache can be written
                return njit(*signatures, nogil=True, error_model="numpy", **options)(function)

    return decorate


def in_threads(function, *tensors):
    """Call a compiled function with equal parts of tensors, along their first dimension, on torch's threads."""
    threads = min(torch.get_num_threads(), len(tensors[0]))
    parts = list(zip(*([part.numpy() for part in one.tensor_split(threads)] for one in tensors), strict=True))
    if threads == 1:
        function(*parts[0])
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda part: function(*part), parts))
