"""The page *In ten minutes*: the steps of ``book/story.yml`` with numbers of the ledger, and a picture of each."""

from pathlib import Path

from workflow.book.catalogue import yaml_of
from workflow.site.beliefs import against, told, used
from workflow.site.markup import filled

REGISTER = Path("book/story.yml")
SHOWN = {  # what the scene and the text of the last step tell of networks
    "optimal": "beyond/your-attention/optimal",
    "foretold": "beyond/your-attention/alone-last",
    "naive": "beyond/your-attention/score-last",
    "freed": "beyond/your-attention/alone-freed-last",
    "frozen": "max-margin/figure-6/cifar-frozen-sparser",
}


def page(rows):
    """Return the scene and the steps; every step names its picture, which the page shows where the scene is not."""
    from workflow.site.drawings import drawn  # with torch

    shown = {name: row["measured"] for name, row in used(REGISTER, {"rows": SHOWN}, rows).items()}
    steps = []
    for entry in yaml_of(REGISTER)["steps"]:
        found, picture = used(REGISTER, entry, rows), drawn("story_" + entry["step"])[1]
        words = {part: told(entry[part], found, **picture, **shown) for part in ("text", "caption")}
        steps.append(entry | words | {"against": against(found)})
    return filled("story", steps=steps, shown={name: f"{x:.4f}" for name, x in shown.items()})
