"""What a change of the real book runs again: asked of Snakemake over the real sources, without running any of it."""

import contextlib
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from workflow.book import catalogue, dependencies
from workflow.run.many_runs import hash_sources
from workflow.run.snakemake import snakemake

ROOT = Path(__file__).parents[1]

SOURCES = ("book", "lib", "workflow", "_toc.yml", "_config.yml", "requirements.lock", "pyproject.toml", "CITATION.cff")
NETWORKS = [
    "beyond/trained-heads", "beyond/your-attention", "max-margin/figure-6", "mirror-descent/mirror-networks",
    "mirror-descent/sentiment", "rates/normalised-sgd",
]  # fmt: skip


@pytest.fixture(scope="module")
def passing(tmp_path_factory):
    """A copy of the book that passes for built: empty outputs, newer than the sources, and no records of Snakemake."""
    folder = tmp_path_factory.mktemp("real")
    for name in SOURCES:
        if (ROOT / name).is_dir():  # bytecode comes and goes while other tests run
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder)
    with contextlib.chdir(folder):
        listed = catalogue.chapters()
        places = [Path(dependencies.mark_code(chapter, {})) for chapter in listed]
        dependencies.mark_commit()
        for chapter in listed:
            places += [Path(f"build/executed/{chapter}.ipynb"), Path(f"build/claims/{chapter}.json")]
        for place in [*places, *(Path("build", name) for name in ("ledger.json", "html/index.html", "accepted"))]:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()
    return folder


@pytest.fixture
def book(passing, tmp_path, monkeypatch):
    """The same, to be changed; copies keep the times of files."""
    shutil.copytree(passing, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    time.sleep(0.01)  # file times have a grain


def dry_run(**config):
    """Return what Snakemake would do by the rules of the copy."""
    command = snakemake(["all"], "--dry-run", rules=Path.cwd() / "workflow/Snakefile", **config)
    plan = subprocess.run(command, env=os.environ | {"JOBS": "1"}, capture_output=True, text=True, check=False)
    assert plan.returncode == 0, plan.stderr
    return plan.stdout + plan.stderr


def jobs(plan):
    """Return the rules that a dry run names."""
    return {*re.findall(r"^(?:local)?rule (\w+):", plan, re.MULTILINE)} - {"all"}


def stale():
    """Return the chapters that a build would run, sorted."""
    return sorted(set(re.findall(r"wildcards: chapter=(\S+)", dry_run())))


def test_nothing_is_stale_at_first_nor_by_a_stray_file_in_the_library_or_a_sentence(book):
    for name in ("notes.txt", ".problem.py.swp"):
        Path("lib", name).write_text("a thought\n")
    before = hash_sources("max-margin/theorem-2")
    assert jobs(dry_run()) == set()
    for chapter in catalogue.chapters():
        path = catalogue.source(chapter)
        text = path.read_text("utf-8").replace("\n## Why it is true\n", "\n## Why it is true\n\nA new sentence.\n")
        text = text.replace("hide-input", "hide-cell")
        assert "A new" in text
        path.write_text("\n".join([text, "And a last one.\n"]), "utf-8")
    assert stale() == []
    assert hash_sources("max-margin/theorem-2") == before, "nor is a run of a sweep stale"


def test_what_pages_show_rebuilds_the_site_and_reruns_no_chapter(book):
    shown = ["workflow/site/landing_page.py", "workflow/sphinx_ext/new.py", "CITATION.cff", "pyproject.toml"]
    for path in shown:
        Path(path).touch()
    plan = dry_run()
    assert jobs(plan) == {"ledger", "site", "accepted"}
    (inputs,) = re.findall(r"^(?:local)?rule site:\n +input: (.*)$", plan, re.MULTILINE)
    assert [path for path in shown if path not in inputs] == []


def test_what_runs_chapters_reruns_them_all(book):
    modules = [f"workflow/{name}.py" for name in ("commands/chapter", "run/notebook", "book/parameters")]
    for path in modules:
        Path(path).touch()
    assert stale() == sorted(catalogue.chapters())
    assert [path for path in modules if path not in dry_run()] == []


def test_a_module_and_a_cell_rerun_the_chapters_that_have_them(book):
    assert len(catalogue.chapters()) > 30
    Path("lib/networks/__init__.py").touch()
    path = catalogue.source("max-margin/theorem-2")
    path.write_text(path.read_text("utf-8").replace("seed: int = 0", "seed: int = 1"), "utf-8")
    assert stale() == sorted([*NETWORKS, "max-margin/theorem-2"])


def test_a_parameter_reruns_its_chapter_and_the_lock_all(book):
    Path("values.yml").write_text("theorem-2: {seed: 1}\n")
    assert re.findall(r"wildcards: chapter=(\S+)", dry_run(parameters="values.yml")) == ["max-margin/theorem-2"]
    Path("requirements.lock").touch()
    assert stale() == sorted(catalogue.chapters())


def test_no_chapter_depends_on_all_modules(book):
    modules = {str(path) for path in Path("lib").rglob("*.py")}
    for chapter in catalogue.chapters():
        found = {path for path in dependencies.library_of(chapter) if path.startswith("lib/")}
        assert found < modules, chapter


def test_a_recorded_run_reruns_the_chapter_that_reads_it(book):
    Path("book/recorded/film-reviews/l2.json").touch()
    assert stale() == ["mirror-descent/sentiment"]
