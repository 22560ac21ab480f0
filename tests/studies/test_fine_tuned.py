"""Rows on the night of fine-tuning: what is compared with what, on records made up for the purpose."""

import math

import pytest

from lib.ledger import source
from studies import fine_tuned

AT, SEEDS = [0, 250, 500, 750], range(9000, 9006)


def found(losses, right=0.5, tokens=8.0, mass=0.1, norm=3.0, shares=0.6, added=0.4, new=1.0):
    """A run whose values beside the loss go from these, at the start, to half of them at the end."""

    def course(value):
        return [value * share for share in (1.0, 0.9, 0.7, 0.5)]

    matrices = {kind: [shares, shares] for kind in fine_tuned.WEIGHTS} | {"up": [9.0, 9.0]}
    return {
        "at": AT, "loss": losses, "test": [[new, value] for value in course(right)],
        "tokens": [[value, 2 * value] for value in course(tokens)], "mass": [[value, value] for value in course(mass)],
        "norms": [[value, 0.0] for value in course(norm)], "shares": matrices,
        "added": {kind: [added, added] for kind in fine_tuned.WEIGHTS},
    }  # fmt: skip


def night(**runs):
    """Records of six seeds that found the same."""
    return {f"{name.replace('_', '-')}-{seed}": {"found": run} for name, run in runs.items() for seed in SEEDS}


def test_a_loss_between_two_checks_is_interpolated_in_its_logarithm():
    run = found([1.0, 0.1, 0.01, 0.001])
    assert fine_tuned.crossing(run, 0.1**1.5) == (1, pytest.approx(0.5))
    assert fine_tuned.at_loss(run, 0.1**1.5, fine_tuned.steps_of) == pytest.approx(375)
    assert fine_tuned.at_loss(run, 2.0, fine_tuned.steps_of) == 0
    assert fine_tuned.crossing(run, 1e-4) is None


def test_a_loss_counts_where_it_is_first_reached_and_a_run_may_diverge():
    run = found([1.0, 0.1, 0.5, None])
    assert fine_tuned.at_loss(run, 0.1, fine_tuned.steps_of) == 250
    assert fine_tuned.lowest(run) == 0.1


def test_speed_is_steps_of_the_other_over_mine_and_never_is_no_speed():
    quick, slow = found([1.0, 0.01, 0.01, 0.01]), found([1.0, 0.5, 0.2, 0.1])
    assert fine_tuned.sooner(quick, slow) == pytest.approx(math.log2(750 / 125))
    assert fine_tuned.sooner(slow, quick) == -fine_tuned.NEVER


def test_runs_at_equal_loss_are_compared_at_the_lowest_that_both_reach():
    deep, shallow = found([1.0, 0.1, 0.01, 0.001], right=1.0), found([1.0, 0.5, 0.2, 0.1], right=1.0)
    # deep has .1 after an epoch, with 90 % right, shallow at its end, with 50 %
    assert fine_tuned.at_equal_loss(fine_tuned.right)(deep, shallow) == pytest.approx(40)


def test_a_run_that_diverged_is_refused_where_means_are_asked_for():
    with pytest.raises(ValueError, match="sgd-9000 has no last loss"):
        fine_tuned.runs(night(sgd=found([1.0, 2.0, None])), "sgd")


def test_seeds_are_paired_and_controls_are_no_runs_of_the_rule():
    records = night(sgd=found([1.0, 0.5, 0.2, 0.1])) | night(sgd_frozen=found([1.0, 0.5, 0.2, 0.2]))
    records |= {"sgd-9006": {"found": found([2.0, 2.0, 2.0, 2.0])}, "tuning-sgd-+4-0": {"found": {}}}
    assert sorted(fine_tuned.runs(records, "sgd")) == [*SEEDS, 9006]
    assert sorted(fine_tuned.runs(records, "sgd", "frozen")) == [*SEEDS]
    measure = fine_tuned.less(fine_tuned.loss_after(3))
    assert fine_tuned.paired(records, ("sgd", ""), ("sgd", "frozen"), measure).tolist() == pytest.approx(6 * [-0.1])


def sources():
    ours = source(None, "Fine-tuning", set="before")
    theirs = source("2402.05738", "R8", "recalled", set="before", scale="stand-in")
    return {None: ours} | dict.fromkeys(("R8", "M6", "Figure 6", "Figure 7", "Figure: sentiment"), theirs)


def rows(records):
    made = [*fine_tuned.speed_rows(records, sources()), *fine_tuned.mirror_rows(records, sources())]
    return {row.name: row for row in made}


LOSSES = [0.7, 0.5, 0.2, 0.1]
EQUAL = {name: found(LOSSES) for name in ("sgd", "normalised", "polyak", "adam", "l1.1", "l3", "sgd_frozen",
         "normalised_frozen", "sgd_permuted", "normalised_permuted")}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "with_", "name", "value"),
    [
        ("normalised", {"losses": [0.7, 0.4, 0.2, 0.1]}, "night-loss-1", -0.1),
        ("normalised", {"losses": [0.7, 0.5, 0.3, 0.1]}, "night-loss-2", 0.1),
        ("normalised", {"losses": [0.7, 0.5, 0.2, 0.2]}, "night-loss-3", 0.1),
        ("normalised", {"losses": [0.7, 0.5, 0.2, 0.09]}, "night-ahead", 1),
        ("polyak", {"losses": [0.7, 0.5, 0.2, 0.05]}, "night-polyak", -0.05),
        ("normalised", {"tokens": 6.0}, "night-tokens", -4.5),
        ("normalised", {"tokens": 6.0}, "night-tokens-equal", -1.5),
        ("normalised_frozen", {"tokens": 6.0}, "night-twin-normalised", -1.5),
        ("sgd_frozen", {"tokens": 6.0}, "night-twin-sgd", -1.5),
        ("normalised_permuted", {"tokens": 6.0}, "night-tokens-labels", -1.5),
        ("sgd", {"tokens": 6.0}, "night-tokens-sgd", -4.5),
        ("l1.1", {"right": 0.6}, "night-right-2", 5.0),
        ("l3", {"right": 0.6}, "night-right-3", -5.0),
        ("adam", {"right": 0.6}, "night-right-adam", -5.0),
        ("l1.1", {"right": 0.6}, "night-alike", 5.0),
        ("sgd", {"right": 0.6}, "night-median", -5.0),
        ("l1.1", {"mass": 0.2}, "night-words", 0.05),
        ("l1.1", {"shares": 0.5}, "night-shares-11-2", -10.0),
        ("l3", {"shares": 0.5}, "night-shares-2-3", 10.0),
        ("l1.1", {"added": 0.5}, "night-added-11-2", 10.0),
        ("sgd_permuted", {"mass": 0.2}, "night-labels-sgd", 0.05),
        ("normalised", {"tokens": 6.0}, "night-last-normalised", -6.0),
        ("l3", {"right": 0.6}, "night-end-3", -5.0),
        ("normalised", {"right": 0.6}, "night-right", 5.0),
        ("normalised", {"new": 0.7}, "night-new", -0.3),
        ("normalised_permuted", {"mass": 0.2}, "night-labels-normalised", 0.05),
    ],
)
def test_each_row_compares_what_its_words_say(changed, with_, name, value):
    made = rows(night(**(EQUAL | {changed: found(**{"losses": LOSSES} | with_)})))
    assert made[name].measured == pytest.approx(value)


def test_steps_to_the_last_loss_are_a_median_and_the_norm_grows_in_percent():
    made = rows(night(**EQUAL))
    assert made["night-steps"].measured == 0
    assert made["night-norm-sgd"].measured == pytest.approx(-50)
