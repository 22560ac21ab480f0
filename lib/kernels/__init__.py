"""The arithmetic of :mod:`lib.logspace`, :mod:`lib.descent` and :mod:`lib.joint` compiled by numba.

Those modules are the statement to read and the second opinion. They call this package by themselves for linear heads.
Some trials side by side stay in the nearest caches for all their steps; the loops stay Python and need no compiler on
the machine.
"""

from .._compiled import compile_all
from .descent import excesses, gradients, trajectories
from .flow import velocity
from .gradient import LANES
from .joint import joint_trajectories
from .plane import profile

__all__ = [
    "LANES", "compile_all", "excesses", "gradients", "joint_trajectories", "profile", "trajectories", "velocity",
]  # fmt: skip
