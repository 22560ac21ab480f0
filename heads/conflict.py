"""Reduce a certificate of infeasibility to rows that conflict, none of which can be left out."""

import torch

from ._lib import norm

NEGLIGIBLE = 1e-10  # part of the largest weight below which one counts as zero
DEPENDENT = 1e-10  # part of the largest singular value below which unit rows count as dependent


def irreducible(rows, certificate):
    """Indices of a smallest set of rows with which no theta has positive products.

    A certificate's weights prove that no theta has D theta > 0. Where the rows that it weighs have more than one linear
    dependence, another one is added to it until a weight is zero; rows with a single dependence, all of whose weights
    are positive, are irreducible.

    Parameters
    ----------
    rows : Tensor, shape (m, D)
    certificate : Tensor, shape (m,)
        Of :func:`lib.separators.hard_margin`.

    Returns
    -------
    list of int

    Examples
    --------
    >>> rows = torch.tensor([[1, 0], [-1, 0], [0, 1], [0, -1]], dtype=torch.float64)
    >>> irreducible(rows, torch.full((4,), 0.25, dtype=torch.float64)) in ([0, 1], [2, 3])
    True
    """
    places = torch.nonzero(certificate > 0).flatten()
    lengths = norm(rows[places])
    if (lengths == 0).any():
        return [places[lengths.argmin()].item()]
    unit, weights = rows[places] / lengths[:, None], certificate[places] * lengths
    while True:
        _, sizes, right = torch.linalg.svd(unit.mT)
        null = right[int((sizes > DEPENDENT * sizes[0]).sum()) :]
        if len(null) <= 1:  # a row without weight in the only dependence is there by rounding
            return places[(null.abs() > NEGLIGIBLE * null.abs().max()).all(0)].tolist()
        along = weights / norm(weights)
        across = null - (null @ along)[:, None] * along
        other = across[norm(across).argmax()]  # orthogonal to positive weights, so it has entries of both signs
        ratio = torch.where(other > 0, weights / other, torch.inf)
        weights = weights - ratio.min() * other
        nonzero = (torch.arange(len(weights)) != ratio.argmin()) & (weights > NEGLIGIBLE * weights.max())
        places, unit, weights = places[nonzero], unit[nonzero], weights[nonzero]
