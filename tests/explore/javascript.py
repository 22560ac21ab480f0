"""JavaScript from Python: by node where there is one, and by the browser of the other tests."""

import html
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from workflow.sphinx_ext import explore

SOURCES = Path(__file__).parents[2] / explore.SOURCES
PROGRAM = "".join(explore.module(name, explore.source_of(name, SOURCES)) for name in explore.ORDER if name != "main.js")
PAGE = """<!doctype html><meta charset="utf-8"><script type="application/json" id="given">{given}</script>
<pre id="answer"></pre><script>
const show = text => document.getElementById("answer").textContent = text;
onerror = message => show("error: " + message);
{program}
show(JSON.stringify(({function})(JSON.parse(document.getElementById("given").textContent))));
</script>"""


def engines():
    """Ways to run JavaScript on this machine, by name."""
    known = {"node": (_by_node, ["node"]), "browser": (_by_browser, ["chromium", "chromium-browser"])}
    paths = {name: next(filter(None, map(shutil.which, names)), None) for name, (_, names) in known.items()}
    return {name: (known[name][0], path) for name, path in paths.items() if path}


def call(program, function, argument, engine=None):
    """Evaluate ``function(argument)`` after a program, JSON in and out, by one of the engines or the first there is."""
    ways = engines()
    run, path = ways[engine or next(iter(ways))]
    return run(path, program, function, json.dumps(argument))


def _by_node(path, program, function, given):
    text = f"{program}\nconst given = JSON.parse(require('fs').readFileSync(0, 'utf8'));\n"
    text += f"process.stdout.write(JSON.stringify(({function})(given)));"
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "script.cjs")
        script.write_text(text, "utf-8")
        done = subprocess.run([path, script], input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def _by_browser(path, program, function, given):
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "page.html")
        page.write_text(PAGE.format(given=given, program=program, function=function), "utf-8")
        flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile", "--dump-dom"]
        done = subprocess.run([path, *flags, page.as_uri()], capture_output=True, text=True, check=False)
    text = html.unescape(done.stdout.partition('<pre id="answer">')[2].partition("</pre>")[0])
    if not text or text.startswith("error: "):
        raise RuntimeError(text or done.stderr)
    return json.loads(text)
