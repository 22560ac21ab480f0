"""Lay the library and the report on heads out as one package, and build its wheel. Called by make."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from workflow.commands import call
from workflow.site.settings import repository

FOLDER = Path("build/wheel")
FILES = ("pyproject.toml", "README.md", "LICENSE", "LICENSE-TEXT")
NAMES = {"lib": "attention_selects", "heads": "attention_heads"}
NAMED = r"(?<=`)(?:lib|heads)(?=\.)|(?<=from )(?:lib|heads)(?= import)|(?<![\w./`])(?:lib|heads)(?=\.(?:{})\b)"
OURS = "book|test|lab|cluster|lock"  # extras of those who work on the book, which a package does not offer
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\((?!https?:|#)([^()\s]+)\)")


def lay_out(folder):
    """Copy what makes the package; links and addresses are absolute where that of the repository is known.

    Modules name others in docstrings and examples as the package has them.
    """
    shutil.rmtree(folder, ignore_errors=True)
    for name in NAMES:
        shutil.copytree(name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    files = [*folder.rglob("*.py")]
    named = NAMED.format("|".join(file.stem for file in files))
    for file in files:
        file.write_text(re.sub(named, lambda match: NAMES[match[0]], file.read_text("utf-8")), "utf-8")
    for name in FILES:
        shutil.copy(name, folder)
    address, about = repository(), folder / "pyproject.toml"
    text = re.sub(rf"^(?:{OURS}) = \[(?:.*\]|\n(?:.*\n)*?\]).*\n", "", about.read_text("utf-8"), flags=re.MULTILINE)
    urls = f'[project.urls]\nRepository = "{address}"\n\n' if address else ""
    about.write_text(text.replace("[project.scripts]", f"{urls}[project.scripts]"), "utf-8")
    readme = folder / "README.md"
    words = re.sub(r"^from lib\.", "from attention_selects.", readme.read_text("utf-8"), flags=re.MULTILINE)
    readme.write_text(absolute(words, address) if address else words, "utf-8")


def absolute(text, address):
    """Links of a Markdown text with the address of the repository; those of pictures lead to the file itself."""

    def link(match):
        picture, label, target = match.groups()
        label = LINK.sub(link, label)
        return f"{picture}[{label}]({address}/{'raw' if picture else 'blob'}/HEAD/{target})"

    return LINK.sub(link, text)


def build(kind, folder):
    """Build what was laid out in ``folder``/source, "wheel" or "sdist", into ``folder``; return the file's path."""
    code = f"from setuptools import build_meta; print(build_meta.build_{kind}('..'))"
    command = [sys.executable, "-c", code]
    said = subprocess.run(command, cwd=folder / "source", check=True, stdout=subprocess.PIPE, text=True).stdout
    return folder / said.split()[-1]


def main():
    """Build the wheel into ``build/wheel``, and print its path."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    lay_out(FOLDER / "source")
    print(build("wheel", FOLDER))


if __name__ == "__main__":
    call(main)
