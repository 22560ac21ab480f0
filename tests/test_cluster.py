"""What runs ask of a cluster, and how Snakemake is told of it. No test sends anything to one."""

from pathlib import Path

from tests.small_book import Book
from workflow.run import cluster, snakemake

ROOT = Path(__file__).parents[1]


def test_time_is_that_of_the_chapter_and_some_more(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIMEOUT", raising=False)
    Book(tmp_path).add("good").add("long", extra="timeout: 1801\n").add("wrong", extra="timeout: soon\n")
    assert [cluster.minutes(f"part/{name}") for name in ("good", "long", "wrong")] == [20, 41, 20]
    monkeypatch.setenv("TIMEOUT", "36000")
    assert cluster.minutes("part/good") == 610


def test_number_of_jobs_at_once_is_that_of_the_profile_or_of_jobs(monkeypatch):
    monkeypatch.setenv("PROFILE", "slurm")
    monkeypatch.delenv("JOBS", raising=False)
    command = snakemake.snakemake(["all"], rules="sweep.smk")
    assert not {"--cores", "--jobs"} & {*command}
    assert command[command.index("--slurm-jobname-prefix") + 1] == "sweep"
    monkeypatch.setenv("JOBS", "7")
    command = snakemake.snakemake(["all"])
    assert command[command.index("--jobs") + 1] == "7"
    assert "--cores" not in command
