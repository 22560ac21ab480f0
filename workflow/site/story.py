"""The page *In ten minutes*: the steps of ``book/story.yml`` with numbers of the ledger, and a picture of each."""

from pathlib import Path

from workflow.book.catalogue import yaml_of
from workflow.site.beliefs import against, told, used
from workflow.site.markup import filled

REGISTER = Path("book/story.yml")
SHOWN = {  # what the scene shows of networks in its last step
    "images": "mirror-descent/mirror-networks/right-adam",
    "optimal": "beyond/your-attention/optimal",
    "foretold": "beyond/your-attention/swaps-last",
}


def page(rows):
    """Return the scene and the steps; every step names its picture, which the page shows where the scene is not."""
    from workflow.site.drawings import drawn  # with torch

    steps = []
    for entry in yaml_of(REGISTER):
        found, picture = used(REGISTER, entry, rows), drawn("story_" + entry["step"])[1]
        words = {part: told(entry[part], found, **picture) for part in ("text", "caption")}
        steps.append(entry | words | {"against": against(found)})
    shown = {name: f"{row['measured']:.4f}" for name, row in used(REGISTER, {"rows": SHOWN}, rows).items()}
    return filled("story", steps=steps, shown=shown)
