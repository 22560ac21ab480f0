"""Tensors of the library as the arrays of compiled code."""

import math

import numpy as np
import torch


def queries_of(problem):
    """Queries, (..., n, 0) with a prompt."""
    return problem.keys.new_empty(problem.keys.shape[-3], 0) if problem.queries is None else problem.queries


def lines(array):
    """All vectors of an array, one below the other."""
    return np.ascontiguousarray(array.reshape(-1, array.shape[-1]).numpy())


def rows_of(batch, *arrays):
    """Arrays, each with how many dimensions are its own, with one leading dimension; for each trial their indices."""
    flat, index = [], []
    for array, trailing in zip(arrays[::2], arrays[1::2], strict=True):
        lead = array.shape[: array.ndim - trailing]
        flat.append(np.ascontiguousarray(array.numpy()).reshape(math.prod(lead), *array.shape[array.ndim - trailing :]))
        index.append(torch.arange(math.prod(lead)).reshape(lead).expand(batch).reshape(-1))
    return flat, torch.stack(index).numpy()
