"""Recorded runs: a study resumes, and its step sizes are chosen in fair lists."""

import itertools
from pathlib import Path

import pytest

from studies import provenance, record, recorded, speed
from studies.archives import Run
from workflow.book import dependencies
from workflow.book.catalogue import BookError, json_of

ROOT = Path(__file__).parents[2]


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A study of two runs, of which the first chooses the second's step size; how often each was made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(provenance.fresh_seeds, "commit", lambda: "a1b2c3d 2026-01-31")
    made = []

    def runner(step_size, seeds):
        made.append(step_size)
        return {"held": [[0.5, 0.7, 0.6]]} if isinstance(step_size, list) else {"right": [0.75]}

    plan = {
        "tuning-l2": Run({"step_size": [0.1, 0.2, 0.4], "seeds": [0, 0, 0]}),
        "l2": Run({"seeds": [6000]}, "tuning-l2"),
    }
    monkeypatch.setitem(recorded.STUDIES, "film-reviews", lambda: plan)
    monkeypatch.setattr(recorded, "_read_reviews", runner)
    return made


def test_a_study_resumes_and_takes_the_tuned_step(study):
    record.make_runs("film-reviews", "tuning-*")
    record.make_runs("film-reviews")
    record.make_runs("film-reviews")
    assert study == [[0.1, 0.2, 0.4], 0.2]
    found = json_of(record.FOLDER / "film-reviews" / "l2.json")
    assert found["settings"] == {"seeds": [6000], "step_size": 0.2}
    assert found["found"] == {"right": [0.75]}
    assert {"commit", "code", "cpu", "date", "seconds", "data"} <= found.keys()


def test_a_record_carries_the_hash_of_the_library_that_a_change_of_its_code_alters(study):
    Path("lib").mkdir()
    Path("lib/a.py").write_text("x = 1\n")
    before = dependencies.library_hash()
    record.make_runs("film-reviews")
    assert json_of(record.FOLDER / "film-reviews" / "l2.json")["code"] == before
    Path("lib/a.py").write_text("x = 1  # one\n")
    assert dependencies.library_hash() == before
    Path("lib/a.py").write_text("x = 2\n")
    assert dependencies.library_hash() != before


def test_a_best_step_at_an_end_of_its_list_is_refused(study, monkeypatch):
    monkeypatch.setattr(recorded, "_read_reviews", lambda **settings: {"held": [[0.7, 0.6, 0.5]]})
    with pytest.raises(BookError, match=r"the best step size, 0\.1, is at an end of its list"):
        record.make_runs("film-reviews")


def test_every_method_has_the_same_number_of_trials_on_the_same_seeds():
    for plan in (recorded.STUDIES | speed.STUDIES).values():
        tuned = {name: run for name, run in plan().items() if name.startswith("tuning-")}
        assert {len({*run.settings["step_size"]}) for run in tuned.values()} <= {recorded.TRIALS}
        assert len({(*run.settings["seeds"],) for run in tuned.values()}) <= 1
        assert all(max(run.settings["seeds"]) < 1000 for run in tuned.values())
        assert all(
            run.tuned_by in tuned and min(run.settings["seeds"]) > 1000 for run in plan().values() if run.tuned_by
        )


def test_refined_step_sizes_are_a_factor_of_sqrt_2_apart_and_all_are_run_on_the_seeds_of_the_rows():
    plan = speed.STUDIES["to-losses"]()
    for name in (name for name in plan if name.startswith("all-")):
        tuning, rows = plan[name.replace("all", "tuning", 1)], plan[name.removeprefix("all-")]
        steps = [*dict.fromkeys(tuning.settings["step_size"])]
        assert [later / step for step, later in itertools.pairwise(steps)] == pytest.approx([2**0.5] * 6, rel=1e-3)
        tried = zip(plan[name].settings["seeds"], plan[name].settings["step_size"], strict=True)
        assert [*tried] == [(seed, step) for seed in rows.settings["seeds"] for step in steps]


def test_a_step_size_is_chosen_by_its_mean_over_the_seeds():
    trials = {"settings": {"step_size": [1, 2, 4, 8] * 2}}
    held = [[0.5, 0.8, 0.7, 0.6, 0.5, 0.5, 0.7, 0.6]]  # 2 is best on the first seed and fails on the second
    assert recorded.chosen({"tuning-l2": trials | {"found": {"held": held}}}, "tuning-l2") == 4


def test_a_run_that_does_not_arrive_counts_with_all_its_steps():
    settings = {"step_size": [1, 2, 4, 8] * 2, "limit": 100}
    for limit, best in ((100, 4), (300, 2)):  # 4 comes there on one of two seeds, 2 on both
        found = {"steps": [90, 70, 10, None, 90, 70, None, None]}
        assert (
            recorded.chosen({"tuning-sgd": {"settings": settings | {"limit": limit}, "found": found}}, "tuning-sgd")
            == best
        )


def test_of_step_sizes_with_equally_many_right_answers_the_smallest_is_chosen():
    counts = [[600, 918, 916, 600], [600, 917, 922, 600], [600, 907, 904, 600]]  # of 1200: 2742 twice
    held = [[round(count / 1200, 4) for row in counts for count in row]]
    for rows in (held, [[value + 4e-5 * (k % 4 == 2) for k, value in enumerate(held[0])]]):
        trials = {"settings": {"step_size": [1, 2, 4, 8] * 3}, "found": {"held": rows}}
        assert recorded.chosen({"tuning-l2": trials}, "tuning-l2") == 2


@pytest.mark.parametrize("study", recorded.STUDIES | speed.STUDIES)
def test_a_recorded_run_has_the_settings_of_its_plan_and_the_step_size_that_its_tuning_chooses(study):
    runs = {path.stem: json_of(path) for path in (ROOT / record.FOLDER / study).glob("*.json")}
    plan = (recorded.STUDIES | speed.STUDIES)[study]()
    tuned = [name for name in runs if plan[name].tuned_by]
    for name in tuned:
        step = {"step_size": recorded.chosen(runs, plan[name].tuned_by)}
        assert runs[name]["settings"] == plan[name].settings | step, name
