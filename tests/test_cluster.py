"""What runs ask of a cluster, and how Snakemake is told of it. No test sends anything to one."""

from workflow.run import cluster, snakemake


def test_time_is_the_limit_of_a_run_and_some_more(monkeypatch):
    monkeypatch.delenv("TIMEOUT", raising=False)
    assert cluster.minutes() == 20
    monkeypatch.setenv("TIMEOUT", "36000")
    assert cluster.minutes() == 610


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
