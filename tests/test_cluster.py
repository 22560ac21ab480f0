"""What is known of a cluster without one: what a run asks for, whose jobs are whose, why a run failed elsewhere.

Runs on a cluster are tested in `tests/cluster`, by `make test-cluster`.
"""

from pathlib import Path

import pytest
from test_workflow import Book

from workflow.run import cluster, snakemake

ROOT = Path(__file__).parents[1]


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """Return a function that puts a program of the cluster's on the path, which has no other."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(cluster, "install", lambda: None)
    monkeypatch.setattr(cluster, "PAUSE", 0)

    def put(name, script):
        (folder / name).write_text("#!/bin/sh\n" + script)
        (folder / name).chmod(0o755)

    return put


def test_time_is_that_of_the_chapter_and_some_more(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIMEOUT", raising=False)
    Book(tmp_path).add("good").add("long", extra="timeout: 1801\n").add("wrong", extra="timeout: soon\n")
    assert [cluster.minutes(f"part/{name}") for name in ("good", "long", "wrong")] == [20, 41, 20]
    monkeypatch.setenv("TIMEOUT", "36000")
    assert cluster.minutes("part/good") == 610


def test_gpu_is_for_runs_on_one():
    assert [cluster.gpus(values) for values in ({"device": "cuda"}, {"device": "cuda:0"})] == [1, 1]
    assert [cluster.gpus(values) for values in ({"device": "cpu"}, {}, {"data": "cuda"})] == [0, 0, 0]


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


def test_machine_without_a_cluster_is_refused_in_one_sentence(tools):
    with pytest.raises(SystemExit, match=r"^there is no sbatch on this machine: run make where the cluster takes jobs"):
        cluster.ready("sweep")


def test_cluster_that_does_not_answer_is_one_sentence(tools):
    for name in ("sbatch", "squeue", "scancel"):
        tools(name, "echo connection refused >&2; exit 1\n")
    with pytest.raises(SystemExit, match=r"^the cluster does not answer \(connection refused\): try again later$"):
        cluster.ready("sweep")


def test_jobs_of_an_earlier_call_are_taken_back_or_waited_for_and_no_others(tools, tmp_path, capsys):
    lines = [f"1|sweep_a|{tmp_path}", f"2|Snakefile_b|{tmp_path}", "3|sweep_c|/elsewhere", f"4|sweep_d|{tmp_path}"]
    queue = "".join(f"echo '{line}'\n" for line in lines)
    tools("sbatch", "")
    tools("scancel", 'echo "$@" >>cancelled\n')
    count = "echo x >>asked; lines=0; while read line; do lines=$((lines+1)); done <asked"
    tools("squeue", f"{count}\n[ $lines -gt 3 ] && exit 0\n{queue}")
    cluster.ready("sweep")
    assert Path("cancelled").read_text() == "--state=PENDING 1 4\n"
    assert capsys.readouterr().out.count("jobs of an earlier call are still running, 2 of them: waiting") == 1
    assert len(Path("asked").read_text().split()) == 4


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("noise\npart/good: running\npart/good: cell 2 failed: x\nmore: noise", "part/good: cell 2 failed: x"),
        ("part/good: running\nnoise", "part/good: its job was stopped before it could say why, see build/slurm/7.log"),
        ("part/good: running\npart/good: stopped", "part/good: its job was stopped before it could say why, see"),
        ("srun: error", "a job ended before its chapter began, see build/slurm/7.log"),
    ],
)
def test_last_words_of_a_job(tmp_path, monkeypatch, log, words):
    monkeypatch.chdir(tmp_path)
    Book(tmp_path).add("good")
    path = Path("build/slurm/7.log")
    path.parent.mkdir(parents=True)
    path.write_text(log)
    assert cluster.last_words(path).startswith(words)
