# A plan of runs -> one JSON a run. `make sweep` writes the plan and reads the results (sweep.py).
#
# A run depends on what a chapter's run in the book depends on, and on its own values. Everything that names a sweep
# stands below build/sweep and build/plans, so that a build can go on meanwhile.

import json
import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(workflow.basedir).parent))
from workflow.book import dependencies
from workflow.run import cluster

PYTHON = sys.executable
PLAN = {chapter: {run["label"]: run["values"] for run in runs}
        for chapter, runs in json.loads(Path(config["plan"]).read_text("utf-8")).items()}
CODE = {chapter: dependencies.mark_code(chapter, {}, "plans/code") for chapter in PLAN}
LIBRARY = {chapter: dependencies.library_of(chapter) for chapter in PLAN}


localrules: all


onstart:  # so that a run can say which of how many it is
    to_run = sum(job.rule.name == "one" for job in workflow.dag.needrun_jobs())
    print(f"{to_run} of {sum(map(len, PLAN.values()))} runs are to be done", flush=True)
    os.environ |= {"CHAPTERS_TO_RUN": str(to_run), "CHAPTERS_FINISHED": "build/plans/finished"}
    Path("build/plans/finished").unlink(missing_ok=True)


rule all:
    input:
        [f"build/sweep/{chapter}/{label}.json" for chapter, runs in PLAN.items() for label in runs],


rule one:
    input:
        lambda wildcards: CODE[wildcards.chapter],
        lambda wildcards: LIBRARY[wildcards.chapter],
        "requirements.lock",
        dependencies.workflow_of("chapter"),
    output:
        "build/sweep/{chapter}/{label}.json",
    wildcard_constraints:
        chapter="|".join(map(re.escape, PLAN)),
        label="[^/]+",
    params:
        values=lambda wildcards: json.dumps(PLAN[wildcards.chapter][wildcards.label], sort_keys=True),
    threads: int(os.environ.get("THREADS") or 1)
    resources:
        mem_mb=3000,
        runtime=cluster.minutes(),
        gpu=lambda wildcards: cluster.gpus(PLAN[wildcards.chapter][wildcards.label]),
    shell:
        "{PYTHON:q} -m workflow.commands.chapter {wildcards.chapter:q} --values {params.values:q} --into sweep"
