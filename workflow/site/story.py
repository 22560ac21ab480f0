"""The page *In ten minutes*: the steps of ``book/story.yml`` with numbers of the ledger, and a picture of each."""

from pathlib import Path

from workflow.book.catalogue import yaml_of
from workflow.site.beliefs import told, used
from workflow.site.markup import filled

REGISTER = Path("book/story.yml")
GUESSED = "mirror-descent/mirror-networks/right-adam"  # what the last step lets a reader guess


def page(rows):
    """Return the scene and the steps; every step names its picture, which the page shows where the scene is not."""
    from workflow.site.drawings import drawn  # with torch

    steps = []
    for entry in yaml_of(REGISTER):
        found, picture = used(REGISTER, entry, rows), drawn("story_" + entry["step"])[1]
        steps.append(entry | {part: told(entry[part], found, **picture) for part in ("text", "caption")})
    guess = next((row["measured"] for row in rows if row["id"] == GUESSED), 0.0)
    return filled("story", steps=steps, guess=f"{guess:.4f}")
