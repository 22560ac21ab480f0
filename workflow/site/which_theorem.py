"""Write *Which theorem applies to me?*: statements with their hypotheses, and what happens without each of these."""

import json
from functools import partial

from lib.ledger import HELD
from workflow.book.catalogue import BookError, yaml_of
from workflow.book.ledger import STATEMENTS, address, by_place, claims_of, ledger, register
from workflow.book.verdicts import standing
from workflow.site.markup import escaped, filled, link, marked, numbers, table


def which_theorem():
    """Table of the statements, a section for each question with its hypotheses, and both as data for the script."""
    contents, rows = yaml_of(STATEMENTS), by_place(ledger())
    questions, known = contents.get("questions", {}), contents.get("hypotheses", {})
    listed = statements(contents.get("ours", ()))
    for statement in listed:
        check(statement, known, questions, rows)
    data = {"questions": questions, "statements": [as_data(statement, known) for statement in listed]}
    head = ("statement", "how it stands", "hypotheses")
    about = {
        asked["asks"]: [
            about_hypothesis(name, known[name], listed, rows) for name in known if known[name]["about"] == on
        ]
        for on, asked in questions.items()
    }
    return filled(
        "which_theorem",
        statements=table(head, map(partial(_row, known, ledger()), listed), "which"),
        questions=about.items(),
        data=json.dumps(data, ensure_ascii=False).replace("<", "\\u003c"),
    )


def statements(ours):
    """Statements of the register that have hypotheses, the papers' and then the book's, with the names of readers."""
    owned = [
        (paper["arxiv"], paper.get("by", paper["short"]), entry) for paper in register() for entry in paper["items"]
    ]
    owned += [(None, "ours", entry) for entry in ours]
    listed = [
        {"paper": paper, "by": by, "called": entry["item"]} | entry for paper, by, entry in owned if "needs" in entry
    ]
    return [entry | {"needs": {name: _rows(drop) for name, drop in entry["needs"].items()}} for entry in listed]


def _rows(drop):
    return drop if isinstance(drop, list) else [drop] if drop else []


def check(statement, known, questions, rows):
    """Refuse a hypothesis that has no words or no options, and a row that is no ablation of this build."""
    for name, dropped in statement["needs"].items():
        said = f"{statement['called']} in {STATEMENTS}"
        if name not in known:
            raise BookError(f"{said} needs {name}, which is not among its hypotheses: {', '.join(known)}")
        on, holds = known[name]["about"], known[name]["holds"]
        if lacking := set(holds) - set(questions.get(on, {}).get("options", ())):
            raise BookError(f"hypothesis {name} in {STATEMENTS} holds for {min(lacking)}, no option of {on}")
        for row in dropped:
            if rows.get(row, {}).get("kind") != "ablation":
                raise BookError(f"{said} names {row}, which is no ablation of the ledger: name one that drops {name}")


def as_data(statement, known):
    """What the script needs of a statement: for each hypothesis its question, its options, and where its words are."""
    needs = statement["needs"]
    return [{"about": known[name]["about"], "holds": known[name]["holds"], "place": f"needs-{name}",
             "dropped": [address(row) for row in needs[name]]} for name in needs]  # fmt: skip


def _row(known, rows, statement):
    """A statement with its standing and its hypotheses, each of which leads to what happens without it."""
    about = [row for row in rows if (row["paper"], row["item"]) == (statement["paper"], statement["item"])]
    name = link(statement["chapter"], statement["called"])
    needs = [f"{{ref}}`{known[name]['says']} <needs-{name}>`" for name in statement["needs"]]
    says = f"{name} ({statement['by']}): {escaped(statement['title'])}"
    return says, marked(standing(about) if statement["paper"] else _standing_of_ours(about)), "; ".join(needs)


def _standing_of_ours(rows):
    """Standing of the book's own claims among rows: their verdict, or in part where they differ."""
    verdicts = {row["verdict"] for row in claims_of(rows, "book")}
    return "in part" if len(verdicts) > 1 else next(iter(verdicts), "not tested")


def about_hypothesis(name, hypothesis, listed, rows):
    """A hypothesis: its words, the rows that drop it, and the statements that need it though no row drops it."""
    need = [statement for statement in listed if name in statement["needs"]]
    dropped = [(link(statement["chapter"], statement["called"]), *_dropped(rows[row]))
               for statement in need for row in statement["needs"][name]]  # fmt: skip
    head = ("statement", "dropped", "what then happens", "verdict", "row")
    return {
        "name": name,
        "says": hypothesis["says"],
        "dropped": table(head, dropped, "dropped") if dropped else "",
        "others": [link(entry["chapter"], entry["called"]) for entry in need if not entry["needs"][name]],
    }


def _dropped(row):
    """What an ablation dropped, what it measured, its verdict, and its address among all rows."""
    place, verdict = address(row["id"]), row["verdict"]
    kept = "" if verdict in HELD else " (so it was not needed here, or the run cannot tell)"
    return (
        escaped(row["breaks"]),
        f"{escaped(row['statement'])}: {numbers(row)}",
        marked(verdict) + kept,
        f'<a href="rows.html#{place}">{place}</a>',
    )
