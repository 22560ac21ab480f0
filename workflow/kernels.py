"""Compile what the library compiles, once: otherwise the first chapters, side by side, would each do it for themselves.

`make` calls it after the environment is made and when a file with compiled code has changed, ``postBuild`` after the
environment. Where numba keeps the result is its choice (``lib/_compiled.py``). A call that finds all there takes a
second or two; two calls at once do the same work twice. LLVM's first level of optimisation gives the same bits as the
third, which numba takes by itself, and code that is as fast, in four fifths of the time.
"""

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from importlib import import_module
from pathlib import Path

LEVEL = {"NUMBA_OPT": "1"}


def main(stamp=None):
    """Compile, and write the file ``stamp`` for make; without one where lib cannot be written, make calls again."""
    os.environ.update(LEVEL | os.environ)  # numba looks when it is imported
    started = time.monotonic()
    print("compiling the kernels, once:", end=" ", flush=True)
    sys.path[0] = ""  # lib is the one of this folder, as for a chapter
    files = [path for path in sorted(Path("lib").glob("*.py")) if "\ndef compile_all(" in path.read_text("utf-8")]
    files.sort(key=lambda path: -path.stat().st_size)  # the longest takes as long as all others
    if files:
        with ProcessPoolExecutor(min(len(files), os.cpu_count())) as pool:
            list(pool.map(compile_module, [f"lib.{path.stem}" for path in files]))
    print(f"{time.monotonic() - started:.0f} s", flush=True)
    if stamp:
        with suppress(OSError):
            Path(stamp).touch()


def compile_module(name):
    """Compile a module's kernels."""
    import_module(name).compile_all()


if __name__ == "__main__":
    main(*sys.argv[1:])
