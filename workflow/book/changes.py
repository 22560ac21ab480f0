"""Read the list of verdicts and tests that changed, ``book/verdict-changes.yml``: what was, what is, and why."""

from pathlib import Path

from workflow.book.catalogue import yaml_of

CHANGES = Path("book/verdict-changes.yml")
GONE = "the row is gone"


def changes():
    """Changes as they were noted, the oldest first."""
    return (yaml_of(CHANGES) or []) if CHANGES.exists() else []


def rows_of_changed_tests():
    """Ids of the rows whose test changed when its result was known: their bounds count as set after."""
    return {name for change in changes() if "test" in change for name in change["rows"]}
