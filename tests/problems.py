"""Random problems, and the definitions written out a second time, as the papers have them."""

import mpmath as mp
import pytest
import torch
from hypothesis import strategies as st

from lib.geometry import dual, inverse_mirror_map, mirror_map, norm, unit
from lib.problem import Problem, from_tokens
from workflow.book.catalogue import BookError


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def refuses(call, words):
    """Assert that a call is refused in one sentence that has these words and, behind a colon, a remedy."""
    with pytest.raises((ValueError, TypeError, RuntimeError, BookError)) as refused:
        call()
    assert words in str(refused.value)
    assert ": " in str(refused.value)
    assert "\n" not in str(refused.value)


def tanh_head(d, generator):
    hidden, out = torch.randn(d, 5, generator=generator), torch.randn(5, generator=generator)

    def head(features):
        return torch.tanh(features @ hidden) @ out

    head.weights = hidden.tolist(), out.tolist()  # for arithmetic with more digits
    return head


def random_data(seed, n=2, T=3, d=3, batch=(), queries=0, nonlinear=False):
    """Arguments of from_tokens: Gaussian tokens, key matrix and queries, random labels."""
    generator = seeded(seed)

    def gaussian(*shape):
        return torch.randn(*shape, generator=generator)

    data = {
        "tokens": gaussian(*batch, n, T, d),
        "labels": 2.0 * torch.randint(0, 2, (*batch, n), generator=generator) - 1,
        "head": tanh_head(d, generator) if nonlinear else gaussian(*batch, d),
    }
    if queries:
        data["queries"] = gaussian(*batch, n, queries)
    else:
        data["key_matrix"] = gaussian(*batch, d, d)
    return data


def random_problem(seed, **kwargs):
    return from_tokens(**random_data(seed, **kwargs))


def random_theta(seed, problem, starts=(), length=1.0):
    theta = torch.randn(*starts, *problem.batch_shape, problem.parameter_size, generator=seeded(seed + 10**6))
    return length * theta


def risk_by_definition(loss, theta, tokens, labels, head, key_matrix=None, queries=None):
    """mean_i loss(y_i psi(X_i^T softmax(X_i W^T p))), or with logits X_i W z_i."""
    if queries is None:
        direction = torch.einsum("...kd,...k->...d", key_matrix, theta)[..., None, :]
    else:
        matrix = theta.unflatten(-1, (tokens.shape[-1], queries.shape[-1]))
        direction = torch.einsum("...de,...ne->...nd", matrix, queries)
    attention = torch.softmax((tokens * direction[..., None, :]).sum(-1), dim=-1)
    features = (attention[..., None] * tokens).sum(-2)
    output = head(features) if callable(head) else (features * head[..., None, :]).sum(-1)
    return loss.value(labels * output).mean(-1)


MP_LOSSES = {
    "logistic": lambda u: mp.log(1 + mp.exp(-u)),
    "exponential": lambda u: mp.exp(-u),
    "correlation": lambda u: -u,
    "sigmoid": lambda u: 1 / (1 + mp.exp(u)),
    "cubic at 0.5": lambda u: -((u - mp.mpf("0.5")) ** 3),
    "cubic at -1": lambda u: -((u + 1) ** 3),
    "cubic at 0.2": lambda u: -((u - mp.mpf(0.2)) ** 3),
}

MP_SLOPES = {
    "logistic": lambda u: -1 / (1 + mp.exp(u)),
    "exponential": lambda u: -mp.exp(-u),
    "correlation": lambda u: mp.mpf(-1),
}


def textbook_gradient(problem, loss, theta):
    """(1/n) sum_i loss'_i A_i^T (diag(a_i) - a_i a_i^T) gamma_i with so many digits that nothing cancels."""
    spread = (problem.logits(theta).amax(-1) - problem.logits(theta).amin(-1)).max().item()
    with mp.workdps(int(spread / 2.3) + 60):
        n, size = problem.keys.shape[0], problem.parameter_size
        gradient = mp.zeros(size, 1)
        for i in range(n):
            rows = problem.keys[i]
            if problem.queries is not None:
                rows = (rows[:, :, None] * problem.queries[i]).flatten(-2)
            rows, scores = mp.matrix(rows.tolist()), mp.matrix(problem.scores[i].tolist())
            weights = (rows * mp.matrix(theta.tolist())).apply(mp.exp)
            attention = weights / mp.fsum(weights)
            margin = (attention.T * scores)[0]
            slope = MP_SLOPES[loss.name](margin)
            pulled = mp.matrix([slope * a * (gamma - margin) for a, gamma in zip(attention, scores, strict=True)])
            gradient += rows.T * pulled / n
        length = mp.norm(gradient)
        return torch.tensor([float(g / length) for g in gradient]), float(mp.log(length))


def dense(gradient):
    return gradient.log_scale.exp()[..., None] * gradient.direction


def same_gradient(first, second, tolerance=1e-9):
    """Equal up to rounding, in units of the first one's largest weight, at any scale."""
    assert torch.equal(torch.isneginf(first.log_scale), torch.isneginf(second.log_scale))
    shift = torch.where(torch.isneginf(first.log_scale), 0.0, second.log_scale - first.log_scale)
    torch.testing.assert_close(
        second.direction * shift.exp()[..., None], first.direction, rtol=tolerance, atol=tolerance
    )
    return True


seeds = st.integers(0, 10**6)
norms = st.sampled_from([0.0, 1.0, 30.0, 1000.0])


@st.composite
def problems(draw, nonlinear=False, **fixed):
    """A small random problem, with a prompt or with queries."""
    sizes = {"n": draw(st.integers(1, 3)), "T": draw(st.integers(2, 4)), "d": draw(st.integers(1, 4))} | fixed
    return random_problem(draw(seeds), queries=draw(st.sampled_from([0, 2])), nonlinear=nonlinear, **sizes)


def with_fields(problem, **changes):
    """The same problem with some of its arrays replaced."""
    return Problem(**{"keys": problem.keys, "scores": problem.scores, "queries": problem.queries} | changes)


def verify(rows, required, separator, order=2.0, gap=1e-9):
    """The conditions of Karush, Kuhn and Tucker in a norm, or the certificate, to what rounding lets know of them."""
    longest, most = rows.norm(dim=-1).max(), required.max()
    if not separator.feasible:
        proof = separator.certificate
        assert (proof >= 0).all()
        assert proof @ required == pytest.approx(1, abs=1e-12)
        assert (proof @ rows).norm() <= 1.01e-12 * proof @ (rows.norm(dim=-1) * (required > 0))
        assert (separator.theta == 0).all()
        assert (separator.duals == 0).all()
        return
    theta, duals, length = separator.theta, separator.duals, norm(separator.theta, order)
    relative = gap + (100 * torch.finfo(torch.float64).eps * longest * norm(separator.theta) / most).item()
    assert (separator.certificate == 0).all()
    torch.testing.assert_close(separator.margins, rows @ theta, rtol=1e-7, atol=(relative * most).item())
    assert (rows @ theta >= required - relative * most).all()
    assert (duals >= 0).all()
    assert (duals * (rows @ theta - required)).abs().max() <= relative * most * duals.sum()
    combined = rows.T @ duals
    assert norm(combined, dual(order)) == pytest.approx(length.item(), rel=10 * relative)  # their scale
    assert abs(1 - duals @ required / norm(combined, dual(order)) / length) <= relative
    assert abs(separator.gap) <= relative
    # theta and the combination are a conjugate pair; of their two powers the smaller one tells how close it is
    if order == 2:
        assert norm(combined - theta) <= relative * length
    elif order < 2:
        expected = unit(inverse_mirror_map(unit(combined, dual(order)), order), order)
        torch.testing.assert_close(unit(theta, order), expected, rtol=0, atol=1e-4)
    else:
        expected = mirror_map(unit(theta, order), order)
        torch.testing.assert_close(unit(combined, dual(order)), expected, rtol=0, atol=1e-4)
