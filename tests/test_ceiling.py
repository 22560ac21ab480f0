"""The algebra of the ceiling of weight decay (weight-decay), in interval arithmetic and against derivatives."""

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import iv, mp

GAPS = st.lists(st.integers(1, 20), min_size=2, max_size=4)


def attention(leads, exp):
    """On the tokens that are not the best, from the leads of the best over them."""
    weights = [exp(-lead) for lead in leads]
    return [weight / (1 + sum(weights)) for weight in weights]


def shortfall(leads, gaps, exp=mp.exp):
    """How far the mean score is below the best one."""
    return sum(gap * a for gap, a in zip(gaps, attention(leads, exp), strict=True))


@given(GAPS, st.integers(-3, 60), st.lists(st.integers(0, 40), min_size=4, max_size=4))
def test_attention_lies_between_the_bounds_of_part_2(gaps, least, more):
    leads = [iv.mpf(least)] + [iv.mpf(least) + extra for extra in more[: len(gaps) - 1]]
    m, tokens = leads[0], len(leads) + 1
    for lead, a in zip(leads, attention(leads, iv.exp), strict=True):
        assert (a - iv.exp(-lead)).a <= 0, "a comparison of intervals: not certainly above"
        assert (a - iv.exp(-lead) / (1 + (tokens - 1) * iv.exp(-m))).b >= 0


@given(GAPS, st.integers(2, 30))
def test_the_least_risk_in_the_ball_has_a_lead_above_the_bound_of_part_2(gaps, ceiling):
    # One input whose other tokens lie symmetric: the separator has all leads equal, and no W has a larger least one.
    loss = lambda score: mp.log(1 + mp.exp(-score))  # noqa: E731
    best, tokens = max(gaps) + 1, len(gaps) + 1
    risk = loss(best - shortfall([mp.mpf(ceiling)] * len(gaps), gaps))
    slopes = [1 / (1 + mp.exp(score)) for score in (best - max(gaps), best)]
    for m in (mp.mpf(ceiling) / 4, mp.mpf(ceiling) / 2, mp.mpf(ceiling)):
        constant = slopes[0] / slopes[1] * (1 + (tokens - 1) * mp.exp(-m)) * sum(gaps) / mp.mpf(min(gaps))
        below = loss(best - min(gaps) * mp.exp(-m) / (1 + (tokens - 1) * mp.exp(-m)))
        if m < ceiling - mp.log(constant):  # such a least lead alone costs more than the separator
            assert below > risk


@pytest.mark.parametrize(("gaps", "leads"), [([1, 3], [4, 6]), ([2, 5], [5, 5]), ([7, 4], [3, 8])])
def test_hessian_of_the_mean_score_is_that_of_part_3(gaps, leads):
    mp.dps = 40
    a, mean = attention(list(map(mp.mpf, leads)), mp.exp), shortfall(list(map(mp.mpf, leads)), gaps)
    v = [share * (gap - mean) for share, gap in zip(a, gaps, strict=True)]
    for s in range(2):
        for r in range(2):
            order = tuple((k == s) + (k == r) for k in range(2))
            measured = mpmath.diff(lambda *point: -shortfall(point, gaps), tuple(leads), order)
            stated = -(s == r) * v[s] + a[s] * v[r] + v[s] * a[r]
            assert abs(measured - stated) < 1e-15


@given(st.tuples(st.integers(2, 10), st.integers(2, 10)), st.tuples(st.integers(0, 30), st.integers(0, 30)))
def test_the_risk_is_strictly_convex_in_the_leads_where_part_3_says_so(gaps, extra):
    # diag(v) - a v' - v a' is positive definite, by its corner and its determinant, in interval arithmetic
    start = iv.log(6 * iv.mpf(max(gaps)) / min(gaps) * 2)  # so that 3 max gap A < min gap
    leads = [start + iv.mpf(more) / 4 for more in extra]
    a, mean = attention(leads, iv.exp), shortfall(leads, gaps, iv.exp)
    assert (3 * max(gaps) * sum(a)).b < min(gaps)
    v = [share * (gap - mean) for share, gap in zip(a, gaps, strict=True)]
    corner, other = (v[k] - 2 * a[k] * v[k] for k in range(2))
    across = -(a[0] * v[1] + v[0] * a[1])
    # scaled by the square roots of attention, or the determinant drowns
    assert (corner / a[0]).a > 0
    assert (corner * other / (a[0] * a[1]) - across**2 / (a[0] * a[1])).a > 0


@pytest.mark.parametrize("gaps", [(0.3, 1, 0.1, 0.6), (1, 1, 1, 1)])
def test_with_several_optimal_multipliers_the_law_takes_those_of_largest_entropy(gaps):
    """Part 4: l_inf in the plane, four inputs, two tokens, leads y + slope x; each p with p . slopes = 0 is optimal."""
    top, slopes = mp.mpf(30), (2, 1, -1, -5)

    def constant(p):
        logs = [mp.log(gap / weight) for gap, weight in zip(gaps, p, strict=True) if weight]
        return sum(weight * log for weight, log in zip(filter(None, p), logs, strict=True)) - min(logs)

    def pull(x):  # of the risk under the exponential loss, along the face y = top
        shares = [1 / (1 + mp.exp(top + slope * x)) for slope in slopes]
        return sum(s * g * a * (1 - a) * mp.exp(g * a) for s, g, a in zip(slopes, gaps, shares, strict=True))

    with mp.workdps(40):
        tilt = mpmath.findroot(lambda t: sum(s * g * mp.exp(-s * t) for s, g in zip(slopes, gaps, strict=True)), 0)
        weights = [gap * mp.exp(-slope * tilt) for slope, gap in zip(slopes, gaps, strict=True)]
        law = constant([weight / sum(weights) for weight in weights])
        x = mpmath.findroot(lambda x: pull(x) * mp.exp(top), tilt)
        assert abs(min(top + slope * x for slope in slopes) - (top - law)) < 1e-9
        assert abs(constant([mp.mpf(5) / 7, 0, 0, mp.mpf(2) / 7]) - law) > 0.02
