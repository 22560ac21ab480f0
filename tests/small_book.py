"""A small book in a temporary folder, with the commands that a reader gives, for the tests of the workflow."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from lib import ledger as table
from workflow.book import ledger

ROOT = Path(__file__).parents[1]

HEADER = """---
jupytext:
  text_representation: {{extension: .md, format_name: myst}}
kernelspec: {{display_name: Python 3, language: python, name: python3}}
---

# Chapter {name}

```{{code-cell}} ipython3
:tags: [parameters]

seed: int = 3  # of nothing
step: float = 0.5  # how far
loss: str = "logistic"
exact: bool = False
```

```{{code-cell}} ipython3
import os, time
from lib.ledger import source, verdict
with open("runs.txt", "a") as file:
    file.write("{name}\\n")
{code}
```

```{{code-cell}} ipython3
theorem_1 = source("2306.13596", "Theorem 1", "printed", set="after")
verdict(theorem_1.claim("half", "The step is a half", step, "==", 0.5),
        theorem_1.ablation("seed", "The seed is small", seed, "<=", 2, breaks="A seed of 2"))
```
"""
STATEMENTS = """papers:
  - {arxiv: "2306.13596", title: Some paper, short: Paper, items: [
      {item: "Theorem 1", title: "A | b", kind: theorem, chapter: part/good},
      {item: "Theorem 2", title: "Nobody's", kind: theorem}]}
"""


def until(condition, seconds=300):
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Book:
    """A small book in a temporary folder, and the commands that a reader gives."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "book/part").mkdir(parents=True)
        (folder / "lib").mkdir()
        for name in ("__init__", "alpha", "beta", "gamma", "unused"):
            (folder / f"lib/{name}.py").write_text("from . import beta\n" if name == "alpha" else "")
        for name in ("ledger", "_glue", "_row_checks", "_verdicts"):
            shutil.copy(ROOT / f"lib/{name}.py", folder / "lib")
        (folder / "requirements.lock").write_text("nothing==1\n")
        (folder / "book/statements.yml").write_text(STATEMENTS)
        (folder / "book/intro.md").write_text("# Intro\n\n```{include} _generated/totals.md\n```\n")
        self.names = []

    def add(self, name, code=""):
        """Write a chapter ``part/name`` and list it."""
        (self.folder / f"book/part/{name}.md").write_text(HEADER.format(name=name, code=code))
        if name not in self.names:
            self.names.append(name)
        files = "".join(f"  - file: book/part/{name}\n" for name in self.names)
        (self.folder / "_toc.yml").write_text(f"format: jb-book\nroot: book/intro\nchapters:\n{files}")
        return self

    def command(self, *targets):
        """Call that `make book` makes."""
        return [sys.executable, "-m", "workflow.commands.build", *targets]

    def build(self, target="ledger", **env):
        """Run the workflow; return the finished process."""
        return self._run(self.command(target), {"JOBS": "4"} | env)

    def script(self, name, *arguments, **env):
        """Run one script of the workflow, as make does."""
        return self._run([sys.executable, "-m", f"workflow.commands.{name}", *arguments], env)

    def begin(self, command, **env):
        """Start a command, which the test waits for."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, cwd=self.folder, env=self.env(**env), start_new_session=True, **pipes)

    def env(self, **more):
        """Environment of a command: the folder's own library before that of this checkout."""
        return os.environ | {"PYTHONPATH": f".{os.pathsep}{ROOT}"} | more

    def _run(self, command, env):
        return subprocess.run(
            command, cwd=self.folder, env=self.env(**env), capture_output=True, text=True, timeout=240, check=False
        )

    def running(self):
        """Chapters that began since the last call of `ran`, sorted."""
        log = self.folder / "runs.txt"
        return sorted(log.read_text().split()) if log.exists() else []

    def ran(self):
        """The same, and begin anew."""
        names = self.running()
        (self.folder / "runs.txt").unlink(missing_ok=True)
        return names

    def has(self, path):
        return (self.folder / path).exists()


def left(*rows, chapter="part/good", seconds=1.0):
    """Write what a run of a chapter leaves."""
    report = {"chapter": chapter, "seconds": seconds, "parameters": {}, "rows": rows}
    report |= {"threads": 1, "cpu": "Some CPU"}
    path = Path(f"build/claims/{chapter}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report))


def collected(*rows, **about):
    """Write what a run of part/good leaves and collect it."""
    left(*rows, **about)
    ledger.collect()


def row(name="half", measured=1e-3, item="Theorem 1", bound=1e-2, kind="claim", statement="It is so", **about):
    of = table.source("2306.13596", item, "restored", set="after")
    judged = [] if kind == "baseline" else ["<=", bound]
    about |= {"breaks": "One input"} if kind == "ablation" else {}
    outcome = getattr(of, kind)(name, statement, measured, *judged, **about)
    (data,) = table.verdict(outcome)._repr_mimebundle_()[ledger.MIME]
    return data
