"""The benchmarks: all styles compute the same, units are what they do, the page shows it. No time is asserted."""

from pathlib import Path

import pytest
import torch

import benchmarks.__main__ as command
from benchmarks import floor, measure, published, solvers, tensors, works
from lib import joint
from lib.datasets import on_sphere, one_best
from lib.descent import normalised
from lib.flow import log_time_flow
from lib.geometry import one_minus_cosine
from lib.losses import logistic
from lib.problem import Problem
from lib.separators import hard_margin
from workflow.book.catalogue import BookError, json_of
from workflow.site import speed

ROOT = Path(__file__).parents[1]

FLOAT32 = 1e-4  # part of the parameter that some steps in single precision may be off by; steps are a tenth or more


def apart(first, second):
    """Largest distance as a part of the length."""
    return ((first - second).norm(dim=-1) / second.norm(dim=-1)).max().item()


@pytest.mark.parametrize(("norm", "matrix"), [(2.0, False), (1.75, True), (2.0, True), (3.0, True)])
def test_styles_of_descent_agree(norm, matrix):
    data, start = on_sphere(6, 8, 10, 3, works.drawn()), torch.randn(3, 100 if matrix else 10, generator=works.drawn(1))
    descent = works.Descent(data, start, 0.1, norm, data.tokens[..., 0, :] if matrix else None)
    ours = descent.library(20)
    assert apart(ours, descent.start) > 0.1
    for style in (tensors.textbook, tensors.exact):
        assert apart(descent.tensors(style, 20), ours) < 1e-10
    assert apart(torch.stack(descent.published(3, 20)), ours) < FLOAT32


def test_styles_of_joint_descent_agree():
    data, rule = on_sphere(3, 4, 5, 2, works.drawn()), normalised(0.1)
    problem, head, theta = joint.JointProblem(data.tokens, data.labels), data.head, data.tokens[:, 0, 0]
    ours = [path.theta[-1] for path in joint.run(problem, logistic, head, theta, rule, rule, 20, [20])]
    for style in (tensors.textbook_jointly, tensors.exact_jointly):
        assert max(map(apart, tensors.descend_jointly(style, problem, head, theta, 0.1, 20), ours)) < 1e-10
    model = published.Attention(*(part[0].float() for part in (data.tokens, head, theta)))
    published_ends = published.descend(model, data.labels[0].float(), 0.1, 20, train_head=True)
    assert max(apart(end_, end[0]) for end_, end in zip(published_ends, ours, strict=True)) < FLOAT32


def test_flow_by_hand_is_that_of_the_library():
    problem = Problem(torch.randn(1, 6, 4, generator=works.drawn()), one_best(1, 6, 1, works.drawn())[0])
    start = 10 * torch.randn(4, generator=works.drawn(1))
    by_hand, calls = tensors.flow(problem, start, 1000.0)
    assert apart(by_hand, log_time_flow(problem, logistic, start, [1000.0]).theta[-1]) < 1e-7
    assert calls > 100


@pytest.mark.parametrize("norm", [1.75, 2.0, 3.0])
def test_published_svm_is_that_of_the_library(norm):
    rows = works.sphere_rows(6, 8, 10, 1, queries=True)[0, 0]
    assert one_minus_cosine(torch.as_tensor(published.svm(rows, norm)), hard_margin(rows, norm).theta) < 1e-9
    with pytest.raises(TimeoutError, match="not solved in 1e-06 s"):
        published.svm(rows, norm, time_limit=1e-6)


@pytest.mark.parametrize(("name", "accuracy"), [("daqp", 1e-12), ("quadprog", 1e-12), ("piqp", 1e-7)])
def test_other_solvers_find_the_svm_of_the_library(name, accuracy):
    pytest.importorskip(name)
    for rows in (works.sphere_rows(4, 6, 10, 3)[0, 0], works.gaussian_rows(60, 20)[0]):
        assert apart(torch.tensor(solvers.OTHERS[name](rows.numpy())()), hard_margin(rows).theta) < accuracy


def test_a_solver_that_is_not_installed_is_left_out_by_its_name(monkeypatch):
    monkeypatch.setattr(solvers, "find_spec", lambda name: None)
    rows = [measure.row(case, floor.Count(1e9, 1e8), 1, 1.0) for case in solvers.cases(True)]
    assert [row["left_out"] for row in rows[1:4]] == [f"{name} is not installed" for name in solvers.OTHERS]
    assert not any("failed" in row for row in rows)
    report = {"rows": rows, "date": "", "commit": "", "machine": {"cpu": ""}, "versions": {}}
    assert [*speed.solver_times(report)["200 x 50"]] == [works.ONE]
    assert "Nothing was compared" in speed.solvers(report)


def test_the_floor_counts_arithmetic():
    assert floor.step(4, 6, 10) == (480, 28)
    assert floor.step(6, 8, 10, 10, norm=3.0) == (2160, 454)
    assert floor.Count(2e9, 3e8).times(2).seconds(floor.Count(1e9, 1e8)) == 10
    few = works.svm_count(works.rows_with_few_support_vectors(600, 512))
    assert few == pytest.approx(floor.svm(600, 512, works.FEW))


@pytest.mark.parametrize("quick", [True, False])
def test_units_are_the_share_of_the_work_that_is_done(monkeypatch, quick):
    done, steps = [], {"steps": 1000} | {f"p = {p:g}": steps for p, steps in works.PUBLISHED.items()}
    monkeypatch.setattr(works, "svms", lambda *_: ())
    monkeypatch.setattr(works.Descent, "published", lambda self, trials, number: done.append(trials * number))
    monkeypatch.setattr(works.Descent, "tensors", lambda self, _, number: done.append(len(self.start) * number))
    library = lambda self, number: done.append(len(self.start) * number) or self.start  # noqa: E731
    monkeypatch.setattr(works.Descent, "library", library)
    for case in (*works.figure_9(quick), *works.divergence(quick)):
        if case.style != "floor":
            case.function()
            assert done.pop() == pytest.approx(case.units * steps[case.part])


def test_a_row_has_the_spread_of_a_unit_and_what_fails_says_so():
    reached, calls = floor.Count(1e9, 1e8), []
    case = works.Case("figure-9", "all", works.ONE, 2, lambda: calls.append(torch.get_num_threads()))
    row = measure.row(case, reached, 3, 1.0)
    assert 0 < row["seconds"]["minimum"] <= row["seconds"]["median"] <= row["seconds"]["maximum"] < 1
    assert (row["runs"], row["units"], calls) == (3, 2, [1] * 4)  # the first one is not counted
    assert measure.row(case, reached, 3, 0.0)["runs"] == 1
    failed = measure.row(case._replace(function=lambda: 1 / 0), reached, 3, 1.0)
    assert (failed["left_out"], failed["failed"]) == ("ZeroDivisionError: division by zero", True)
    assert measure.row(case._replace(function=floor.Count(1e9, 1e8)), reached, 3, 1.0)["seconds"]["median"] == 2


def test_the_run_writes_what_the_page_reads(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    case = works.Case("figure-9", "all", works.ONE, 2, lambda: sum(range(1000)))
    monkeypatch.setattr(works, "cases", lambda quick: [case, case._replace(function=lambda: 1 / 0)])
    monkeypatch.setenv("RECORD", "1")
    with pytest.raises(BookError, match=r"there is no book/recorded/benchmarks.json, which book/speed.md shows: run"):
        speed.recorded()
    with pytest.raises(SystemExit, match=r"1 cases failed, the first: +all +one core +left out: ZeroDiv"):
        command.main(["benchmarks"])
    with pytest.raises(SystemExit, match="floor is not timed: give benchmarks or solvers"):
        command.main(["floor"])
    assert len(speed.recorded()["rows"]) == 2
    assert "Figure 9, a trial" in speed.page(json_of(Path("build/benchmarks.json")))
    assert capsys.readouterr().out.startswith("Figure 9, a trial: 1,000 steps, two SVMs: time of one trial\n")


def test_the_page_adds_parts_divides_and_says_what_was_found():
    report = json_of(ROOT / speed.RECORDED)
    assert report["works"] == works.WORKS
    assert {row["style"] for row in report["rows"]} == set(speed.STYLES)
    seconds = {(row["part"], row["style"]): row["seconds"]["median"] for row in report["rows"][:11]}  # of Figure 9
    title, whole = next(iter(speed.works(report).items()))
    assert whole["published"] == seconds["steps", "published"] + seconds["SVMs", "published"]
    assert f"| {title} | {speed.times(whole['published'] / whole['one core'])} |" in speed.page(report)
    assert "left out: not solved in 60 s" in speed.page(report)


def test_the_table_of_solvers_shows_where_they_are_faster():
    report = json_of(ROOT / speed.RECORDED_SOLVERS)
    assert {row["style"] for row in report["rows"]} == set(speed.SOLVERS)
    medians, text = speed.solver_times(report), speed.solvers(report)
    ratios = [min(of[name] for name in solvers.OTHERS) / of[works.ONE] for of in medians.values()]
    assert f"the fastest in {sum(ratio > 1 for ratio in ratios)} of {len(ratios)} tasks" in text
    for (part, of), ratio in zip(medians.items(), ratios, strict=True):
        assert f"| {part} | {speed.times(ratio)} | {speed.shown(of[works.ONE])} | {speed.shown(of['daqp'])} |" in text


def test_times_have_two_digits_and_ratios_three_at_most():
    texts = [speed.shown(seconds).replace("\N{NO-BREAK SPACE}", " ") for seconds in (31.4, 0.9999, 2.8e-8, 2e-10)]
    assert texts == ["31 s", "1.0 s", "28 ns", "0.2 ns"]
    assert [speed.times(ratio) for ratio in (0.63, 9.96, 171.4, 82345)] == ["0.6", "10", "171", "82,300"]
