"""Run one chapter and print its verdicts."""

import argparse

from lib.ledger import bound, number, plain, signed
from workflow.book import parameters
from workflow.book.catalogue import BookError, find, source, title
from workflow.book.ledger import tally
from workflow.commands import call
from workflow.run import engine
from workflow.run.chapter import values_of


def show(chapter, notebook, summary):
    """Print the rows of a single run."""
    print(f"\n{title(source(chapter))}")
    print(", ".join(f"{name}={value!r}" for name, value in summary["parameters"].items()) or "no parameters")
    for row in summary["rows"]:
        asked, said = bound(row["relation"], row["bound"]), signed(row["verdict"])
        print(f"  {said:<24} {number(row['measured']):>12}  {asked:<20} {row['item']}: {plain(row['statement'])}")
    print(f"notebook: {notebook}\n")


def look(chapter, asked):
    """Run a chapter for a look, not for the book; return what it left and its notebook."""
    try:
        run = engine.plan(chapter, engine.LOOKS, values_of(chapter, asked)[1])
        ((_, left),) = engine.outcomes([[run]], engine.here)
        if "rows" not in left:
            raise BookError(left["sentence"])
    except BookError as error:
        raise BookError(f"{chapter}: {error}") from None
    return left, engine.places(run)["notebook"]


def main():
    """Run the chapter that the command line names."""
    cli = argparse.ArgumentParser(description=__doc__)
    cli.add_argument("name", help="a chapter: max-margin/lemma-1, or lemma-1")
    cli.add_argument("--params", default="", help='"seed=7 iterations=5000"')
    arguments = cli.parse_args()
    chapter = find(arguments.name)
    try:
        asked = parameters.parse(arguments.params)
    except BookError as error:
        raise BookError(f"{chapter}: {error}") from None
    summary, notebook = look(chapter, asked)
    show(chapter, notebook, summary)
    print(f"{chapter}: {summary['seconds']:.1f} s, {tally(summary['rows'])}", flush=True)


if __name__ == "__main__":
    call(main)
