"""The night of fine-tuning: its plan goes on where it stopped, and its rules are those of the library."""

import itertools
import math

import pytest
import torch

from lib.geometry import inverse_mirror_map, mirror_map
from studies import fine_tuning, fine_tuning_plan
from studies.networks.measures import share_that_counts


def all_runs(best):
    """Every run of the plan, where a rule's loss after an epoch is least at the place that ``best`` says."""
    known = {}
    while (run := fine_tuning_plan.next_run(known)) is not None:
        name, settings = run
        assert name not in known
        place = 2 * math.log2(settings["step_size"] / fine_tuning_plan.LOWEST[settings["rule"]])
        known[name] = {"settings": settings, "found": {"loss": [abs(place - best(settings))]}}
    return known


@pytest.mark.parametrize("best", [4, 5, 0, -6, 13])
def test_the_plan_tunes_refines_and_trains_whatever_the_best_step_size_is(best):
    known = all_runs(lambda settings: best)
    for rule, lowest in fine_tuning_plan.LOWEST.items():
        tried = {
            record["settings"]["step_size"] for name, record in known.items() if name.startswith(f"tuning-{rule}-")
        }
        used = {known[f"{rule}-{seed}"]["settings"]["step_size"] for seed in fine_tuning_plan.SEEDS}
        (size,) = used
        assert size == pytest.approx(lowest * 2 ** (best / 2), rel=1e-3)
        assert {known[name]["settings"]["seed"] for name in known if name.startswith(f"tuning-{rule}-")} == {0, 1}
        assert min(tried) < size < max(tried)
    assert sum(not name.startswith("tuning-") for name in known) == 6 * 5 + 12 + 3 * 5


def test_seeds_take_the_step_sizes_of_both_tuning_seeds_and_controls_those_of_their_seeds():
    known = all_runs(lambda settings: 4 + settings["seed"] % 2)
    sizes = [known[f"sgd-{seed}"]["settings"]["step_size"] for seed in (9000, 9001, 9002)]
    assert sizes[0] == sizes[2] != sizes[1]
    for seed, change in itertools.product((9000, 9001, 9002), ("permuted", "frozen")):
        control = known[f"normalised-{change}-{seed}"]["settings"]
        assert control.pop(change)
        assert control == known[f"normalised-{seed}"]["settings"]


def test_a_run_that_diverged_is_the_worst_and_equal_ones_take_the_smaller_step():
    known = {fine_tuning_plan.tuning_name("sgd", place, 0): {"found": {"loss": [loss]}}
             for place, loss in ((0, None), (2, 0.5), (4, 0.5))}  # fmt: skip
    assert fine_tuning_plan.best_of("sgd", [0, 2, 4], 0, known) == 2


def test_processes_share_the_rules():
    assert fine_tuning_plan.next_run({}, ["adam"])[1]["rule"] == "adam"
    with pytest.raises(ValueError, match="ONLY has 'adagrad'"):
        fine_tuning.make_all("adam adagrad")


@pytest.mark.parametrize(("rule", "order"), [("sgd", 2.0), ("l1.1", 1.1), ("l3", 3.0)])
def test_mirror_descent_is_that_of_the_library(rule, order):
    draw = torch.Generator().manual_seed(1)
    weights = [torch.randn(4, 3, generator=draw).double(), torch.tensor([0.0, 0.5, -0.3]).double()]
    slopes = [[torch.randn(weight.shape, generator=draw).double() for weight in weights] for _ in range(3)]
    expected = torch.cat([weight.flatten() for weight in weights])
    for step in slopes:
        moved = mirror_map(expected, order) - 0.1 * 0.5 * torch.cat([slope.flatten() for slope in step])
        expected = inverse_mirror_map(moved, order)
    move = fine_tuning.mover(rule, weights)
    for step in slopes:
        move(step, 0.1, 0.5, 1.0)
    torch.testing.assert_close(torch.cat([weight.flatten() for weight in weights]), expected)


def test_normalised_and_polyak_steps_have_their_lengths():
    slopes = [torch.tensor([3.0]), torch.tensor([4.0])]
    for rule, loss, length in (("normalised", 9.0, 0.2), ("polyak", 2.0, 0.2), ("polyak", 0.5, 0.05)):
        weights = [torch.zeros(1), torch.zeros(1)]
        fine_tuning.mover(rule, weights)(slopes, {"normalised": 0.2, "polyak": 0.04}[rule], 1.0, loss)
        assert torch.cat(weights).norm().item() == pytest.approx(length)


def test_batches_have_each_snippet_once_an_epoch_and_are_of_like_length(monkeypatch):
    monkeypatch.setattr(fine_tuning, "SPLIT", (1600, 10, 10))
    lengths = torch.randint(3, 33, (1620,), generator=torch.Generator().manual_seed(0))
    there = torch.arange(32) < lengths[:, None]
    rows = [*fine_tuning.batches(there, 2, torch.Generator().manual_seed(3))]
    assert len(rows) == 2 * 50
    assert torch.cat(rows[:50]).sort().values.tolist() == [*range(1600)]
    assert max(int(lengths[batch].max() - lengths[batch].min()) for batch in rows) < 8


def test_the_schedule_rises_over_a_tenth_and_ends_near_zero():
    shares = [fine_tuning.schedule(step, 100) for step in range(100)]
    assert shares.index(max(shares)) in (9, 10)
    assert max(shares) == pytest.approx(1.0)
    assert shares[-1] == pytest.approx(1 / 90)
    assert all(0 < share <= 1 for share in shares)


@pytest.fixture(scope="module")
def small():
    """Sixty-four snippets of a lexicon, and random weights."""
    draw = torch.Generator().manual_seed(0)
    names = {
        f"encoder.layer.{k}.{name}": (minilm_shape(name))
        for k in range(6)
        for name in fine_tuning.minilm.MATRICES.values()
    }
    start = {}
    for name, (rows, columns) in names.items():
        start |= {
            f"{name}.weight": torch.randn(rows, columns, generator=draw) * 0.05,
            f"{name}.bias": torch.zeros(rows),
        }
    for k, part in itertools.product(range(6), ("attention.output", "output")):
        start |= {f"encoder.layer.{k}.{part}.LayerNorm.{kind}": value for kind, value in
                  (("weight", torch.ones(384)), ("bias", torch.zeros(384)))}  # fmt: skip
    lengths = torch.randint(4, 9, (96,), generator=draw)
    there = torch.arange(8) < lengths[:, None]
    rows = dict(zip(("train", "held", "test"), torch.arange(96).split((64, 16, 16)), strict=True))
    rows["fixed"] = rows["train"][:16]
    labels = torch.where(torch.rand(96, generator=draw) > 0.5, 1.0, -1.0)
    marked = (torch.rand(96, 8, generator=draw) > 0.6) & there & ~fine_tuning.edges(there)
    return fine_tuning.Data(torch.randn(96, 8, 384, generator=draw), there, marked, labels, rows), start


def minilm_shape(name):
    return {"intermediate.dense": (1536, 384), "output.dense": (384, 1536)}.get(name, (384, 384))


@pytest.fixture
def short(monkeypatch):
    """Runs of two epochs of two batches."""
    monkeypatch.setattr(fine_tuning, "SPLIT", (64, 16, 16))
    monkeypatch.setattr(fine_tuning, "STEPS", 2)
    monkeypatch.setattr(fine_tuning, "CHECKS", 1)
    monkeypatch.setattr(fine_tuning, "ALIKE", 2)


def test_a_run_notes_what_its_docstring_says_and_is_the_same_again(small, short):
    first, second = (fine_tuning.fine_tune(*small, "sgd", 5, 2, 0.1) for _ in range(2))
    assert first == second
    assert first["at"] == [0, 1, 2, 3, 4]
    assert len(first["batches"]) == 4
    assert all(len(first[name]) == 5 for name in fine_tuning.MEASURED)
    assert all(1 <= count <= 8 for check in first["tokens"] for count in check)
    assert all(0 <= mass <= 1 for check in first["mass"] for mass in check)
    _, start = small
    unmoved = share_that_counts(start["encoder.layer.0.attention.self.query.weight"].double().flatten())
    assert first["shares"]["query"][0] == pytest.approx(unmoved.item(), rel=0.01)


def test_frozen_queries_stay_and_permuted_labels_change_the_loss_and_not_the_batches(small, short):
    frozen, plain, permuted = (
        fine_tuning.fine_tune(*small, "sgd", 5, 2, 0.1, **change)
        for change in ({"frozen": True}, {}, {"permuted": True})
    )
    assert frozen["added"]["query"] == [1.0] * 6, "nothing was added: all entries are zero"
    assert plain["added"]["query"] != frozen["added"]["query"]
    assert permuted["loss"][0] != plain["loss"][0]
    assert permuted["test"][0] == plain["test"][0]


def test_a_run_that_diverges_ends_with_nothing_measured(small, short):
    found = fine_tuning.fine_tune(*small, "sgd", 5, 2, 1e30)
    assert found["loss"][-1] is None
    assert found["batches"][-1] is None


def test_fixed_snippets_share_their_attention_among_words_alone():
    there = torch.tensor([[True] * 4 + [False], [True] * 5])
    assert fine_tuning.edges(there).tolist() == [[True, False, False, True, False], [True, False, False, False, True]]
