"""The list of statements for somebody who has the printed papers."""

import re
from pathlib import Path

import yaml
from small_book import collected, row

from workflow.site import compare

BOXES = """
````{{prf:theorem}} Theorem 1 (Somebody et al.)
:label: thm-good
:class: restored

If all is well,

```{{math}}
:label: eq-good
x \\to 1 .
```
````

````{{prf:theorem}} A law (ours)
:label: thm-ours

Not of the paper.
````
"""


def test_statements_of_a_paper_are_listed_with_what_rests_on_them(inside):
    chapter = Path("book/part/good.md")
    chapter.write_text(chapter.read_text().replace("```{code-cell}", BOXES.format() + "\n```{code-cell}", 1))
    Path("book/sources.md").write_text("| chapter | we lacked |\n| --- | --- |\n| {doc}`part/good` | its formula |\n")
    collected(
        row(),
        row("more"),
        row("printed", source="printed"),
        row("ours", of="book"),
        row("heard", source="recalled"),
    )
    listed = compare.statements()
    assert "### Theorem 1" in listed
    assert "*restored*; 2 claims of this chapter rest on such text" in listed
    assert "where our version comes from: its formula." in listed
    assert "```{math}\nx \\to 1 .\n```" in listed
    assert re.search(r"- Theorem 1, .*, \*recalled\*: It is so\. ☐ as printed", listed)
    assert "label:" not in listed
    assert "Not of the paper" not in listed
    assert compare.basis().startswith("We test 4 claims of the papers: 1 rest on printed text, 2 rest on")


def test_printed_sentences_without_a_row_are_listed_with_the_reason(inside):
    Path("book/sources.md").write_text("# Sources\n")
    collected(row())
    assert "not tested" not in compare.statements()
    register = yaml.safe_load(Path("book/statements.yml").read_text())
    untested = [
        {"where": "Section 4", "says": "it is large", "because": "No measure."},
        {"where": "Captions", "because": "We have none."},
    ]
    register["papers"][0]["untested"] = untested
    Path("book/statements.yml").write_text(yaml.safe_dump(register))
    listed = compare.statements().partition("### Printed, and not tested, or in part only")[2]
    assert '- *Section 4*, "it is large": No measure.\n- *Captions*: We have none.' in listed
