"""The arithmetic of :mod:`lib.logspace`, :mod:`lib.descent` and :mod:`lib.joint` compiled by numba.

Those modules are the statement to read and the second opinion. They call this package by themselves for linear heads in
float64 on the CPU. One trial at a time, or eight in the lanes of SIMD registers, stays in the nearest cache for all its
steps; the loops stay Python and need no compiler on the machine.
"""

from .._compiled import compile_all
from .descent import excesses, gradients, trajectories
from .joint import joint_trajectories
from .llvm import LANES
from .plane import profile
from .trial import velocity

__all__ = [
    "LANES", "compile_all", "excesses", "gradients", "joint_trajectories", "profile", "trajectories", "velocity",
]  # fmt: skip
