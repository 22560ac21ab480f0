"""List the chapters, what each reproduces, and its parameters with their ranges, from the sources alone."""

from workflow.book import parameters
from workflow.book.catalogue import chapters, read, source, title
from workflow.book.ledger import register
from workflow.commands import call


def main():
    """Print the list."""
    items = {}
    for paper in register():
        for entry in paper["items"]:
            items.setdefault(entry.get("chapter"), []).append(entry["item"])
    for chapter in chapters():
        print(f"{chapter}: {title(source(chapter))} [{', '.join(items.get(chapter, ['-']))}]")
        known = parameters.declared(read(chapter))
        print("    " + ", ".join(parameters.describe(known, parameters.range_of)))


if __name__ == "__main__":
    call(main)
