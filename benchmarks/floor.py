"""The floor: the multiply-adds and exponentials that a work cannot do without, at the speed that this core reaches.

No memory, no branches, no loop: a compiled program comes near it, and none goes below it with the same arithmetic.
"""

import timeit
from typing import NamedTuple

import torch


class Count(NamedTuple):
    """Arithmetic of a work, or what one core does in a second. A logarithm counts as an exponential, a power as two."""

    multiply_adds: float
    exponentials: float

    def times(self, factor):
        """Return the arithmetic of so many of it."""
        return Count(self.multiply_adds * factor, self.exponentials * factor)

    def seconds(self, speed):
        """Return its time at a speed."""
        return self.multiply_adds / speed.multiply_adds + self.exponentials / speed.exponentials


def measured_speed():
    """Measure the speed of one core: products of matrices and exponentials that lie in its cache, best of many."""
    torch.set_num_threads(1)
    matrix, numbers = torch.rand(256, 256, dtype=torch.float64), -torch.rand(8192, dtype=torch.float64)
    products, powers = torch.empty_like(matrix), torch.empty_like(numbers)
    of_product = _shortest(lambda: torch.mm(matrix, matrix, out=products))
    return Count(256**3 / of_product, 8192 / _shortest(lambda: torch.exp(numbers, out=powers)))


def _shortest(function):
    return min(timeit.repeat(function, number=1, repeat=300))


def step(n, T, d, e=0, norm=2.0):
    """Arithmetic of one step of one trial, with a prompt or, for e > 0, with a d x e matrix and queries.

    Logits and the way back, softmax, the slope of the loss; for p other than 2 the dual norm and the mirror map.
    """
    powers = 0 if norm == 2 else 2 * d * max(e, 1)
    return Count(2 * (n * T * d + n * d * e), n * T + n + 2 * powers)


def svm(rows, size, active):
    """Arithmetic of an SVM whose support vectors are known: one least-squares solve on them, one look at each row."""
    return Count(rows * size + active**2 * size + active**3 / 3, 0)
