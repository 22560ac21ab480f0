"""Compile what the library compiles, once: otherwise each of the first parallel chapters would do it.

`make` calls it after the environment is made and when a file with compiled code has changed, ``postBuild`` after the
environment. Where numba keeps the result is its choice (``lib/_compiled.py``). A call that finds all compiled takes a
second or two; two calls at once do the same work twice. LLVM's first level of optimisation gives the same bits as the
third, which numba takes by itself, and code that is as fast, in four fifths of the time.
"""

import logging
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from importlib import import_module
from pathlib import Path

NUMBA_OPT = "1"
FOLDERS, MARK = ("lib", "studies"), "\n@compiled("


def main(stamp=None):
    """Compile, and write the file ``stamp`` for make; without one where lib cannot be written, make calls again."""
    os.environ.setdefault("NUMBA_OPT", NUMBA_OPT)  # numba reads it on import
    started = time.monotonic()
    print("compiling the kernels, once:", end=" ", flush=True)
    sys.path.insert(0, "")  # import lib from this folder, also in the processes of the pool
    files = [path for folder in FOLDERS for path in Path(folder).rglob("[!.]*.py") if MARK in path.read_text("utf-8")]
    files.sort(key=lambda path: -path.stat().st_size)  # the longest first, to finish soonest
    names = [".".join(path.with_suffix("").parts) for path in files]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_module, names))
    print(f"{time.monotonic() - started:.0f} s", flush=True)
    if stamp:
        with suppress(OSError):
            Path(stamp).parent.mkdir(exist_ok=True)  # Python makes it only where it may write bytecode
            Path(stamp).touch()


def compile_module(name):
    """Compile a module's kernels, without the library's message that it takes a while."""
    logging.getLogger("lib").setLevel(logging.ERROR)
    import_module(name)
    import_module("lib._compiled").compile_all(name)


if __name__ == "__main__":
    main(*sys.argv[1:])
