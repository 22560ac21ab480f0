"""What readers take away: notebooks that run without the project and are plain Markdown; doors to Binder and Colab."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import numpy as np
import pytest
import torch

from tests.processes import said
from workflow.site import downloads, plain_markdown, settings

ROOT = Path(__file__).parents[1]

RAW = re.compile(r"\{[a-z][\w:-]*\}`|^[`:]{3,} *\{|^\([\w-]+\)=|^:::|^:[\w-]+: |\\norm\b", re.MULTILINE)
HERE = {
    "page": "book/a/x",
    "site": "https://site",
    "numbers": {"n": "12.3456", "word": "'two of five'", "none": "nan", "whole": "34"},
    "macros": {"norm": ["\\left\\lVert #1 \\right\\rVert", 1]},
    "works": downloads.parse_file(str(ROOT / "book/references.bib")).entries,
    "labels": {
        "book/a/x": ("book/a/x", "", "This page"),
        "book/b/y": ("book/b/y", "", "That page"),
        "thm": ("book/a/x", "thm", "Theorem 1"),
        "def": ("book/b/y", "def", "Log time"),
        "eq-here": ("book/a/x", "equation-eq-here", "(2)"),
        "eq-there": ("book/b/y", "equation-eq-there", "(3)"),
        "fig": ("book/a/x", "fig", "Figure 1"),
    },
}


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("{glue:text}`n:.1f` and {glue:text}`n`", "12.3 and 12.3456"),
        ("{glue:text}`word`, {glue:text}`none:.2f`", "two of five, nan"),
        ("{glue:text}`whole:d` chapters", "34 chapters"),
        ("{prf:ref}`thm`, {prf:ref}`the theorem <thm>`", "Theorem 1, the theorem"),
        ("{prf:ref}`def`", "[Log time](https://site/book/b/y.html#def)"),
        ("{eq}`eq-here`", "(2)"),
        ("{eq}`eq-there`", "[(3) of *That page*](https://site/book/b/y.html#equation-eq-there)"),
        ("{numref}`fig`", "Figure 1"),
        ("{doc}`../b/y`", "[That page](https://site/book/b/y.html)"),
        ("{cite:t}`lawson1995solving`", "Lawson and Hanson, 1995"),
        ("{cite:p}`vasudeva2024implicit`", "([Vasudeva et al.](https://arxiv.org/abs/2402.05738), 2024)"),
        ("{strange}`said`", "said"),
        ("`{eq}` and `code`", "`{eq}` and `code`"),
        ("```bash\nmake {eq}`x`\n```", "```bash\nmake {eq}`x`\n```"),
        (r"$\norm{p_{\mathrm{mm}}} + \norm p + \norm\xi$",
         r"$\left\lVert p_{\mathrm{mm}} \right\rVert + \left\lVert p \right\rVert + \left\lVert \xi \right\rVert$"),
        ("(thm)=\n# Title", "# Title"),
        ("```{math}\n:label: eq-here\na = b .\n```", "$$\na = b . \\tag{2}\n$$"),
        (":::{admonition} Correction\n:class: correction\nNo.\n:::", "> **Correction**\n>\n> No."),
        ("````{prf:theorem} Theorem 1\n:label: thm\n\nLet $a\n> b$\n\n```{math}\na\n+ b\n```\n````",
         "> **Theorem 1**\n>\n> Let $a > b$\n>\n> $$ a + b $$"),
        ("```{glue:} tab-x-rows\n```", "*The table is shown by one of the last cells.*"),
        (":::{findings}\n- At {glue:text}`n:.0f`.\n:::", "> **Findings**\n>\n> - At 12."),
        ("```{glue:figure} key\n:name: fig\n**Finding.** At {glue:text}`n:.0f`.\n```",
         "> **Figure 1**\n>\n> **Finding.** At 12."),
        ("```{figure} x.svg\nA caption.\n```", "> **Figure**\n>\n> A caption."),
        (":::{dropdown} `x` and {eq}`eq-here`\nYes.\n:::", "> **`x` and (2)**\n>\n> Yes."),
        ("- One\n  ```python\n  if x:\n    y\n  ```\n- Two", "- One\n  ```python\n  if x:\n    y\n  ```\n- Two"),
        (":::{note}\nOpen to the end", "> **Note**\n>\n> Open to the end"),
    ],
)  # fmt: skip
def test_markup_becomes_plain_markdown(source, shown):
    assert plain_markdown.plain(source, HERE) == shown


def test_formulas_are_numbered_from_top_to_bottom_also_in_boxes_and_none_in_code():
    formula = "```{{math}}\n:label: {}\na\n```"
    text = f"````{{note}}\n{formula.format('x')}\n````\n{formula.format('y')}\n````text\n{formula.format('z')}\n````"
    page = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text)])
    labels = downloads.labels({"page": page})
    assert {name: labels[name][2] for name in labels} == {"page": "page", "x": "(1)", "y": "(2)"}


def test_a_notebook_names_what_it_may_need():
    assert {"torch", "matplotlib", "scikit-learn", "cvxpy", "pandas"} <= {*downloads.packages().split()}


def first_cell(folder, site=None, digest=None):
    """Run the first cell of a downloaded notebook in a folder, where no `lib` can be imported, and then a use of it."""
    start = downloads.START.format(site=site, digest=digest)
    (folder / "cell.py").write_text(start + "\nimport lib\nprint(lib.__file__)\n")
    return subprocess.run([sys.executable, "cell.py"], cwd=folder, env=hidden(folder), capture_output=True, text=True)


def hidden(folder):
    """Surroundings in which Python does not find the project's `lib`, however it was installed."""
    (folder / "hide").mkdir()
    (folder / "hide/sitecustomize.py").write_text(
        "import sys\nfrom pathlib import Path\n"
        "sys.path[:] = [path for path in sys.path if not Path(path, 'lib/ledger.py').exists()]\n"
        "sys.meta_path[:] = [finder for finder in sys.meta_path if 'editable' not in repr(finder)]\n"
    )
    return os.environ | {"PYTHONPATH": str(folder / "hide")}


def executed(folder, name, *options, env=os.environ | {"PYTHONPATH": str(ROOT)}):
    """Run a notebook in its folder into ``done.ipynb``."""
    said(sys.executable, "-m", "papermill", name, "done.ipynb", "-k", "python3", *options, folder=folder, env=env)


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """The library as the site carries it: folder of the site, and the archive's hash."""
    monkeypatch.chdir(ROOT)
    (tmp_path / "site/_static").mkdir(parents=True)
    return tmp_path / "site", downloads.library_zip(tmp_path / "site/_static/lib.zip")


def test_the_same_library_is_the_same_archive(archive, tmp_path):
    for name in ("lib", "heads", "studies"):
        shutil.copytree(ROOT / name, tmp_path / "copy" / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "copy/lib/notes.txt").write_text("no part of it")
    for path in (tmp_path / "copy").rglob("*"):
        os.utime(path, (1e9, 1e9))
    os.chdir(tmp_path / "copy")
    assert downloads.library_zip(tmp_path / "again.zip") == archive[1]


def test_first_cell_finds_the_library_beside_it_or_above_it_or_on_the_site(archive, tmp_path):
    site, digest = archive
    beside, under, far = tmp_path / "beside", site / "_sources/book", tmp_path / "far"
    for folder in (beside, under, far):
        folder.mkdir(parents=True)
    shutil.copy(site / "_static/lib.zip", beside)
    for folder, address in ((beside, None), (under, None), (far, site.as_uri())):
        done = first_cell(folder, address, digest)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == str(folder / "what-attention-selects/lib/__init__.py")


def test_first_cell_takes_no_other_library_and_says_what_to_do(archive, tmp_path):
    site, digest = archive
    for name, wanted in (("nothing", digest), ("another", "0" * 64)):
        (tmp_path / name).mkdir()
        if name == "another":
            shutil.copy(site / "_static/lib.zip", tmp_path / name)
        done = first_cell(tmp_path / name, None, wanted)
        assert done.stderr.splitlines()[-1].startswith("FileNotFoundError: put lib.zip beside this notebook")


@pytest.mark.parametrize(
    "values", [{}, {"model": "mine.pt", "data": "mine.npz", "head": "1", "prefix": "layers.1.self_attn."}]
)
def test_notebook_for_a_model_of_ones_own_runs_on_that_of_the_book_and_on_another(archive, tmp_path, values):
    site, digest = archive
    labels = {downloads.OWN_MODEL: (downloads.OWN_MODEL, "", "Use it")}
    downloads.own_model(site / "_static/own.zip", HERE | {"title": "Book", "digest": digest, "labels": labels})
    zipfile.ZipFile(site / "_static/own.zip").extractall(tmp_path / "mine")
    layer = torch.nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)
    torch.save(torch.nn.TransformerEncoder(layer, 2).state_dict(), tmp_path / "mine/mine.pt")
    data = {"tokens": torch.randn(4, 5, 8), "labels": [1, -1, 1, -1], "readout": torch.randn(8)}
    np.savez(tmp_path / "mine/mine.npz", **data)
    options = [word for name, value in values.items() for word in ("-p", name, value)]
    executed(tmp_path / "mine", "use-it-on-your-model.ipynb", *options)
    shown = json.loads((tmp_path / "mine/done.ipynb").read_text("utf-8"))["cells"][-1]["outputs"]
    inputs = "4 inputs of up to 5 tokens." if values else "64 inputs of up to 33 tokens."
    assert inputs in "".join(line for output in shown for line in output.get("text", ()))  # after what is logged
    heads = json.loads((tmp_path / "mine/report.json").read_text())["heads"]
    assert [head["check"] for head in heads] == ["assumed"] * 2


@pytest.mark.parametrize("values", [{}, {"optimizer": ["torch.optim.SGD", "lr=1"], "steps": 50}])
def test_notebook_for_a_claim_runs_as_it_is_and_with_another_optimiser(archive, tmp_path, values):
    _, digest = archive
    labels = {downloads.CLAIM: (downloads.CLAIM, "", "Check")}
    book = HERE | {"title": "Book", "digest": digest, "labels": labels}
    nbformat.write(downloads.templated(downloads.CLAIM, "check-your-claim", book), tmp_path / "claim.ipynb")
    executed(tmp_path, "claim.ipynb", *(["-y", json.dumps(values)] if values else []))
    runs = json.loads((tmp_path / "check.json").read_text())["runs"]
    assert [run["until"] for run in runs if run["unit"] == "steps"] == [50 if values else 8000] * 2


def test_downloaded_notebooks_show_nothing_raw(built):
    paths = sorted((built / "build/html/_sources/book").rglob("*.ipynb"))
    assert len(paths) > 20
    for path in paths:
        notebook = nbformat.read(path, 4)
        assert notebook.cells[1].id == "library"
        for cell in notebook.cells:
            assert "mystnb" not in cell.metadata
            if cell.cell_type == "markdown":
                assert not (raw := RAW.search(cell.source)), f"{path.stem}: {cell.source[raw.start() - 40 :][:120]}"


def test_downloaded_notebook_runs_in_an_empty_folder(built, tmp_path):
    shutil.copy(built / "build/html/_sources/book/max-margin/lemma-3.ipynb", tmp_path)
    shutil.copy(built / "build/html/_static/lib.zip", tmp_path)
    executed(tmp_path, "lemma-3.ipynb", env=hidden(tmp_path))
    assert (tmp_path / "what-attention-selects/lib/ledger.py").is_file()
    assert "reproduced" in (tmp_path / "done.ipynb").read_text("utf-8")


@pytest.mark.parametrize("url", ["", "https://github.com/someone/selects"])
def test_links_to_repository_site_binder_and_colab_are_there_with_an_address_alone(url):
    config = settings.settings((ROOT / "_config.yml").read_text("utf-8").replace('url: ""', f'url: "{url}"'))
    site = "https://someone.github.io/selects" if url else None
    assert settings.site_of(config) == config["html"].get("baseurl") == site
    assert (
        config["html"]["use_repository_button"] == ("launch_buttons" in config) == ("repository" in config) == bool(url)
    )
