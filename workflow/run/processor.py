"""Name the kind of processor that numbers come from, by which libraries choose their instructions.

The same code rounds alike on all processors of a kind, whatever their names. On another kind, with wider registers, a
sum rounds otherwise, and a chaotic run amplifies the difference.
"""

import os
import subprocess
import sys


def kind(variables):
    """Kind of this processor for libraries that are loaded with these environment variables.

    In a separate process, which takes half a second: libraries choose once, as they are loaded.
    """
    command = [sys.executable, "-m", "workflow.run.processor"]
    return subprocess.run(command, env=variables, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def main():
    """Print the kind: LLVM's name of the processor, and the instructions that each library chooses here."""
    import llvmlite.binding
    import numpy as np
    from threadpoolctl import threadpool_info

    extensions = np.show_config("dicts")["SIMD Extensions"]
    taken = {
        "numba": os.environ.get("NUMBA_CPU_NAME"),  # unset, numba takes LLVM's name
        "OpenBLAS": "/".join(sorted({pool["architecture"] for pool in threadpool_info() if "architecture" in pool})),
        # Where these are set, as on every x86 processor, torch takes its own as it is, and MKL its own on Intel's.
        "torch": os.environ.get("ATEN_CPU_CAPABILITY"),
        "MKL": os.environ.get("MKL_CBWR"),
        "numpy": (extensions.get("found") or extensions["baseline"])[-1],
    }
    words = [f"{library} {choice}" for library, choice in taken.items() if choice]
    print(f"{llvmlite.binding.get_host_cpu_name()}: {', '.join(words)}")


if __name__ == "__main__":
    main()
