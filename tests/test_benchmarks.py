"""The benchmarks: all styles compute the same, their units are what they do, and the page is made from what they wrote.

No time is asserted: a test that can fail on a busy machine is none.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from benchmarks import examination, floor, measure, published, tensors, textbook, works
from lib import joint
from lib.datasets import on_sphere, one_best
from lib.descent import normalised, run
from lib.flow import log_time_flow
from lib.geometry import one_minus_cosine, unit
from lib.joint import JointProblem
from lib.losses import logistic
from lib.problem import Problem, difference_rows, from_tokens
from lib.selection import optimal_tokens
from lib.separators import hard_margin

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "workflow"))

import speed  # noqa: E402 - it stands beside the scripts that the workflow calls
from chapters import BookError  # noqa: E402

import benchmarks.__main__ as command  # noqa: E402

FLOAT32 = (
    1e-4  # part of the parameter that some steps in single precision may be off by; steps are a tenth of it or more
)


def matrices(trials=3):
    generator = torch.Generator().manual_seed(0)
    data = on_sphere(6, 8, 10, trials, generator)
    queries = unit(torch.randn(trials, 6, 10, generator=generator))
    problem = from_tokens(data.tokens, data.labels, data.head, queries=queries)
    return problem, data, queries, torch.randn(trials, 100, generator=generator)


def apart(first, second):
    """Largest distance as a part of the length."""
    return ((first - second).norm(dim=-1) / second.norm(dim=-1)).max().item()


def library(problem, start, rule, iterations, norm=2.0):
    return run(problem, logistic, start, rule, iterations, [iterations], norm).theta[-1]


def test_styles_agree_on_a_prompt():
    data = on_sphere(4, 6, 10, 3, torch.Generator().manual_seed(0))
    problem, start = from_tokens(*data), torch.zeros(3, 10)
    ours = library(problem, start, normalised(0.5), 10)
    assert apart(textbook.descend(problem, start, 0.5, 10), ours) < 1e-10
    assert apart(tensors.descend(problem, logistic, start, normalised(0.5), 10), ours) < 1e-10
    tokens, labels, heads = (part.float() for part in data[:3])
    for k in range(3):
        theta, head = published.descend(published.Attention(tokens[k], heads[k], start[k].float()), labels[k], 0.5, 10)
        assert theta.dtype == torch.float32
        assert torch.equal(head, heads[k])
        assert apart(theta, ours[k]) < FLOAT32


@pytest.mark.parametrize("norm", [1.75, 2.0, 3.0])
def test_styles_agree_on_a_matrix(norm):
    problem, data, queries, start = matrices()
    ours = library(problem, start, normalised(0.1, norm), 20, norm)
    assert apart(ours, start) > 0.1
    assert apart(textbook.descend(problem, start, 0.1, 20, norm), ours) < 1e-10
    assert apart(tensors.descend(problem, logistic, start, normalised(0.1, norm), 20, norm), ours) < 1e-10
    tokens, labels, heads, asked = (part.float() for part in (*data[:3], queries))
    for k in range(3):
        model = published.Attention(tokens[k], heads[k], start[k].float().view(10, 10), asked[k])
        theta, _ = published.descend(model, labels[k], 0.1, 20, norm)
        assert apart(theta.flatten(), ours[k]) < FLOAT32


def test_styles_agree_on_head_and_prompt():
    data = on_sphere(3, 4, 5, 2, torch.Generator().manual_seed(0))
    problem, head, theta = JointProblem(data.tokens, data.labels), data.head, data.tokens[:, 0, 0]
    rule = normalised(0.1)
    ours = [path.theta[-1] for path in joint.run(problem, logistic, head, theta, rule, rule, 20, [20])]
    for found in (
        textbook.descend_jointly(problem, head, theta, 0.1, 20),
        tensors.descend_jointly(problem, logistic, head, theta, rule, 20),
    ):
        assert max(map(apart, found, ours)) < 1e-10
    for k in range(2):
        model = published.Attention(data.tokens[k].float(), head[k].float(), theta[k].float())
        found = published.descend(model, data.labels[k].float(), 0.1, 20, train_head=True)
        assert apart(found[0], ours[1][k]) < FLOAT32
        assert apart(found[1], ours[0][k]) < FLOAT32


def test_flow_by_hand_is_that_of_the_library():
    generator = torch.Generator().manual_seed(0)
    keys = torch.randn(1, 6, 4, generator=generator)
    problem = Problem(keys, one_best(1, 6, 1, generator)[0])
    start = 10 * torch.randn(4, generator=generator)
    by_hand, calls = tensors.flow(problem, logistic, start, 1000.0)
    assert apart(by_hand, log_time_flow(problem, logistic, start, [1000.0]).theta[-1]) < 1e-7
    assert calls > 100


@pytest.mark.parametrize("norm", [1.75, 2.0, 3.0])
def test_published_svm_is_that_of_the_library(norm):
    problem = matrices(1)[0][0]
    rows = difference_rows(problem, optimal_tokens(problem))
    assert one_minus_cosine(torch.as_tensor(published.svm(rows, norm)), hard_margin(rows, norm).theta) < 1e-9


def test_published_svm_without_solution_is_none():
    assert published.svm(torch.tensor([[1.0, 0.0], [-1.0, 0.0]])) is None


def test_published_svm_gives_up_in_time():
    with pytest.raises(TimeoutError, match="not solved in 1e-06 s"):
        published.svm(works.gaussian_rows(60, 32)[0], time_limit=1e-6)


def test_the_floor_counts_arithmetic():
    assert floor.step(4, 6, 10) == (480, 28)
    assert floor.step(6, 8, 10, 10) == (2160, 54)
    assert floor.step(6, 8, 10, 10, norm=3.0) == (2160, 454)
    assert floor.svm(20, 10, 3) == (299, 0)
    assert floor.Speed(1e9, 1e8).seconds(floor.Count(2e9, 3e8).times(2)) == 10
    assert all(rate > 1e6 for rate in floor.measured_speed())


def test_large_rows_have_the_support_vectors_that_they_promise():
    few = hard_margin(works.rows_with_few_support_vectors(600, 512))
    assert (few.duals > 1e-9 * few.duals.max()).sum() == works.FEW
    many = hard_margin(works.gaussian_rows(60, 32))
    assert many.feasible.all()
    assert (many.duals > 1e-9 * many.duals.max()).sum() > 16


@pytest.fixture
def counted(monkeypatch):
    """Steps of trials that the styles are asked for, instead of what they do."""
    steps = []

    def asked(trials, iterations, result):
        steps.append(trials * iterations)
        return result

    monkeypatch.setattr(published, "descend", lambda model, labels, size, number, *_, **__: asked(1, number, None))
    monkeypatch.setattr(textbook, "descend", lambda problem, start, size, number, *_: asked(len(start), number, None))
    monkeypatch.setattr(tensors, "descend", lambda problem, loss, start, rule, number, *_: asked(len(start), number, 0))
    path = SimpleNamespace
    monkeypatch.setattr(works, "run", lambda *given: asked(len(given[2]), given[4], path(theta=given[2][None])))
    monkeypatch.setattr(works, "_svms", lambda *_: ())
    return steps


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("work", ["figure_9", "divergence"])
def test_units_are_the_share_of_the_work_that_is_done(counted, work, quick):
    published_steps = {"steps": 1000} | {f"p = {p:g}": steps for p, steps in works.PUBLISHED.items()}
    styles = set()
    for case in getattr(works, work)(quick):
        if case.style != "floor":
            counted.clear()
            case.function()
            assert sum(counted) == pytest.approx(case.units * published_steps[case.part])
            styles.add(case.style)
    assert styles == {"published", "textbook", "tensors", "one core", "all cores"}


def case(function, part="all", grown=None):
    return works.Case("figure-9", part, "one core", 2, function, grown)


def measured(one, limit=1.0, earlier=()):
    return measure.row(one, floor.Speed(1e9, 1e8), 3, limit, earlier)


def test_a_row_has_the_spread_of_a_unit():
    calls = []
    row = measured(case(lambda: calls.append(torch.get_num_threads())))
    seconds = row["seconds"]
    assert 0 < seconds["minimum"] <= seconds["median"] <= seconds["maximum"] < 1
    assert row["runs"] == 3
    assert calls == [1] * 4  # the first one is not counted
    assert row["peak_memory"] > 1e7


def test_a_row_of_the_floor_is_computed():
    row = measured(case(floor.Count(1e9, 1e8)))
    assert row["seconds"] == {"minimum": 2.0, "median": 2.0, "maximum": 2.0}


def test_a_work_over_its_limit_runs_once():
    assert measured(case(lambda: sum(range(1000))), limit=0.0)["runs"] == 1


def test_a_case_that_fails_says_so():
    def fails():
        raise ValueError("no such thing: take another")

    assert measured(case(fails))["left_out"] == "ValueError: no such thing: take another"


def test_a_case_out_of_time_says_so():
    def is_slow():
        raise TimeoutError("not solved in 60 s")

    assert measured(case(is_slow))["left_out"] == "not solved in 60 s"


def test_a_case_that_would_take_too_long_is_left_out():
    small = measured(case(lambda: sum(range(1000)), "small")) | {"seconds": {"median": 3.0}}
    large = case(lambda: pytest.fail("it ran"), "large", ("small", 10.0))
    assert measured(large, earlier=[small])["left_out"] == "would take about 30 s"
    assert "seconds" in measured(large._replace(function=lambda: None), limit=8.0, earlier=[small])


def test_an_examination_is_a_line_for_each_size(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["examination", "4x3x5", "2x3x4"])
    examination.main()
    _, first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("  4x3x5 ")
    assert second.startswith("  2x3x4 ")
    assert " GiB; 1 - cos 0." in first


def bench(folder, **variables):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "QUICK": "", "RECORD": ""} | variables
    return subprocess.run(
        [sys.executable, "-m", "benchmarks"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", ["QUICK", "RECORD"])
def test_a_switch_that_is_neither_yes_nor_no_is_refused(name):
    done = bench(ROOT, **{name: "yes"})
    assert done.returncode == 1
    assert done.stderr == f"{name} is 'yes': give 1, or leave it out\n"


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured(tmp_path):
    (tmp_path / "build").write_text("in the way")
    (tmp_path / "workflow").symlink_to(ROOT / "workflow")
    done = bench(tmp_path)
    assert done.returncode == 1
    assert done.stderr == "build/benchmarks.json cannot be written: file exists\n"
    assert done.stdout == ""


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Run the benchmarks over two cases, in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(works, "warm_up", lambda: None)
    found = [case(lambda: sum(range(1000))), case(floor.Count(1e9, 0))._replace(style="floor")]
    monkeypatch.setattr(works, "cases", lambda quick: iter(found))
    monkeypatch.setenv("QUICK", "1")
    return found


@pytest.mark.parametrize("record", ["", "1"])
def test_the_run_prints_and_writes_what_the_page_reads(small, monkeypatch, capsys, record):
    monkeypatch.setenv("RECORD", record)
    command.main()
    written = json.loads(command.BUILT.read_text("utf-8"))
    assert [row["style"] for row in written["rows"]] == ["one core", "floor"]
    assert written["quick"] is True
    assert "Figure 9, a trial" in speed.page(written)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "Figure 9, a trial: 1,000 steps, two SVMs: time of one trial"
    assert printed[2].split()[:2] == ["all", "floor"]
    assert speed.RECORDED.exists() == bool(record)
    if record:
        assert speed.recorded() == written


def test_a_run_with_a_failed_case_writes_the_rest_and_fails(small, monkeypatch):
    monkeypatch.setenv("RECORD", "")
    small.append(case(lambda: 1 / 0, "wrong"))
    with pytest.raises(SystemExit, match=r"1 of 3 cases failed, the first: +wrong +one core +left out: ZeroDiv"):
        command.main()
    assert len(json.loads(command.BUILT.read_text("utf-8"))["rows"]) == 3


# The page.


def entry(work, part, style, median, **more):
    spread = {"minimum": 0.9 * median, "median": median, "maximum": 1.1 * median}
    return {"work": work, "part": part, "style": style, "units": 10, "runs": 5, "seconds": spread} | more


FOUND = {
    "quick": False,
    "date": "2026-01-31",
    "commit": "a1b2c3d 2026-01-31",
    "machine": {"cpu": "Some CPU", "cores": 4, "threads": {"one core": 1, "all cores": 4}},
    "speed": {"multiply_adds": 4.2e10, "exponentials": 1.7e9},
    "versions": {"python": "3.12.1", "torch": "2.13.0", "numba": None},
    "works": {
        "figure-9": {"title": "Figure 9", "unit": "trial"},
        "flow": {"title": "Flow", "unit": "flow"},
        "separators": {"title": "SVM", "unit": "SVM"},
        "growth": {"title": "A step", "unit": "step of one trial"},
    },
    "rows": [
        entry("figure-9", "steps", "published", 0.09),
        entry("figure-9", "steps", "one core", 0.0003),
        entry("figure-9", "steps", "floor", 3e-5),
        entry("figure-9", "SVMs", "published", 0.01),
        entry("figure-9", "SVMs", "one core", 0.0002, peak_memory=3.2e9),
        entry("flow", "flow", "tensors", 0.6),
        entry("flow", "flow", "one core", 0.02),
        entry("flow", "flow", "all cores", 0.011),
        entry("separators", "20 x 10", "published", 0.003),
        entry("separators", "20 x 10", "one core", 1.5e-5),
        {"work": "separators", "part": "large", "style": "one core", "left_out": "would take about 900 s"},
        entry("growth", "T = 6", "one core", 4e-7),
    ],
}
FOUND["rows"][2].pop("units")


def cells(text, name):
    """Cells of the first line of a table that begins with this name."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip().replace("\N{NO-BREAK SPACE}", " ") for cell in line.strip("|").split("|")]


def test_page_adds_parts_and_divides():
    text = speed.page(FOUND)
    assert cells(text, "work") == [
        "work", "published / one core", "tensors / one core", "one core / all",
        "published style", "`lib`, tensors by hand", "`lib`, one core", "`lib`, all cores", "floor",
    ]  # fmt: skip
    assert cells(text, "Figure 9") == ["Figure 9", "200", "–", "–", "100 ms", "–", "500 µs", "–", "–"]
    assert cells(text, "– steps") == ["– steps", "300", "–", "–", "90 ms", "–", "300 µs", "–", "30 µs"]
    assert cells(text, "Flow") == ["Flow", "–", "30", "1.8", "–", "600 ms", "20 ms", "11 ms", "–"]
    assert cells(text, "SVM, 20 x 10")[1:] == ["200", "–", "–", "3.0 ms", "–", "15 µs", "–", "–"]
    assert cells(text, "SVM, large")[1:] == ["–"] * 8
    assert cells(text, "T = 6") == ["T = 6", "400 ns"]


def test_page_says_what_was_found_and_where():
    text = speed.page(FOUND)
    assert "**On one core `lib` is 200 times as fast as the published style, and 30 times as fast as" in text
    assert "Recorded on 2026-01-31 at commit a1b2c3d 2026-01-31, on a machine with 4 cores (Some CPU)" in text
    assert "at most 3.2 GB of memory. Versions: python 3.12.1, torch 2.13.0. A core reached 42.0 thousand" in text
    assert "All 12 measurements" in text
    assert "| SVM | large | lib, one core | – | – | left out: would take about 900 s | – | – |" in text
    assert "quick run" not in text
    assert "quick run" in speed.page(FOUND | {"quick": True})


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(31.4, "31 s"), (0.0999, "100 ms"), (0.9999, "1.0 s"), (1.74e-3, "1.7 ms"), (2.8e-8, "28 ns"), (2e-10, "0.2 ns")],
)
def test_times_have_two_digits(seconds, text):
    assert speed.shown(seconds) == text.replace(" ", "\N{NO-BREAK SPACE}")


@pytest.mark.parametrize(
    ("ratio", "text"), [(0.63, "0.6"), (9.96, "10"), (57.2, "57"), (171.4, "171"), (82345, "82,300")]
)
def test_ratios_have_three_digits_at_most(ratio, text):
    assert speed.times(ratio) == text


@pytest.fixture
def with_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "book/recorded").mkdir(parents=True)
    (tmp_path / "book/speed.md").write_text("# Speed\n")
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: book/speed\n")
    speed.RECORDED.write_text(json.dumps(FOUND))
    return tmp_path / "generated"


def test_staging_writes_text_and_picture_once(with_page):
    speed.stage(with_page)
    text, picture = (with_page / "speed.md").read_text("utf-8"), with_page / "speed.svg"
    assert text == speed.page(FOUND)
    assert b"matplotlib" in picture.read_bytes()[:2000]
    drawn = picture.stat().st_mtime_ns
    speed.stage(with_page)
    assert picture.stat().st_mtime_ns == drawn
    os.utime(speed.RECORDED, ns=(drawn + 10**9, drawn + 10**9))
    speed.stage(with_page)
    assert picture.stat().st_mtime_ns != drawn


def test_a_book_without_the_page_needs_no_numbers(with_page):
    speed.RECORDED.unlink()
    (with_page.parent / "_toc.yml").write_text("format: jb-book\nroot: book/intro\n")
    (with_page.parent / "book/intro.md").write_text("# Intro\n")
    speed.stage(with_page)
    assert not with_page.exists()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (Path.unlink, "there is no book/recorded/benchmarks.json, which book/speed.md shows: run make bench RECORD=1"),
        (lambda path: path.write_text("{}"), "book/recorded/benchmarks.json lacks quick and date and "),
        (lambda path: path.write_text("[]"), "book/recorded/benchmarks.json lacks quick and date and "),
        (lambda path: path.write_text('{"quick"'), "book/recorded/benchmarks.json is half written"),
    ],
)
def test_numbers_that_are_not_there_are_one_line(with_page, spoil, message):
    spoil(speed.RECORDED)
    with pytest.raises(BookError, match=message):
        speed.stage(with_page)


def test_the_recorded_numbers_are_those_of_all_works():
    found = json.loads((ROOT / speed.RECORDED).read_text("utf-8"))
    assert found["works"] == works.WORKS
    assert {row["work"] for row in found["rows"]} == set(works.WORKS)
    assert {row["style"] for row in found["rows"]} == set(speed.STYLES)
    assert [row for row in found["rows"] if "failed" in row] == []
