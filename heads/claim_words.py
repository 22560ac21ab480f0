"""Say in words what the check of a problem of one's own has given: the lines of the terminal and of the page."""

from . import claims, optimisers
from ._lib import checks

HOLDS = {True: "holds", False: "fails", None: "open"}
STABLE = """Descent can stay at each of these, where better tokens lag by more than 1: a lag is how far a logit is \
behind the selected one's along the shortest direction that puts all tokens that score lower at least 1 behind. It \
leaves all others unless it stops at a finite point: measured in the chapter From any start, proved for two inputs of \
two tokens."""
NONE_STABLE = """There is none, as in none of them better tokens lag by more than 1: descent leaves every selection \
unless it stops at a finite point."""
KNOWN_AS = "Names are those of the page Which theorem applies to me?, which-theorem.html in the book: #needs-NAME."


def sections(answer):
    """Titles and lines of the answer, in words."""
    lines = [*_inseparable(answer), *map(_short, answer["runs"]), _losses(answer)]
    yield f"{answer['problem']}, {answer['loss']} loss", lines
    facts = answer["hypotheses"].items()
    yield "Hypotheses", [f"{HOLDS[fact['holds']]:<6} {name}: {fact['why']}" for name, fact in facts] + [KNOWN_AS]
    if answer["stable"] is not None:
        lines = [f"{one['tokens']}" + _lag(one["lag"]) for one in answer["stable"]]
        yield "Stable selections of tokens", [*lines, STABLE] if lines else [NONE_STABLE]
    for run in answer["runs"]:
        yield _name(run), [*_ends(run), *_predicted(run), *_rounded(run)]


def _inseparable(answer):
    """What it means that nothing separates the best tokens; no line where something does."""
    if answer["certificate"]:
        tokens = checks.join_names(f"{token} of input {place}" for place, token in answer["certificate"])
        trained = answer["problem"].split()[-3]
        yield (
            f"No direction separates the best tokens: for every {trained} some token that scores less is not behind the"
            f" best one of its input (certificate: tokens {tokens}). Claims on the best tokens do not apply; move these"
            " tokens, or ask for another selection."
        )


def _name(run):
    return run["name"].replace("gradient flow", "Gradient flow", 1)


def _short(run):
    """A run in a line: where it ends, and who said so."""
    if not run["norms"]:
        return _nothing(run)
    agree = [one["name"] for one in run["statements"] if one["agrees"]]
    against = _against(run)
    open_ = [one["name"] for one in run["statements"] if not one["lacks"] and one["agrees"] is None]
    said = [f"predicted by {', '.join(agree)}"] if agree else []
    said += [f"AGAINST {', '.join(against)}"] if against else []
    if not said:
        said = [f"applicable, see below: {', '.join(open_)}" if open_ else "predicted by no statement of the book"]
    which = "the best tokens" if run["best"] else "not the best tokens"
    return f"{_name(run)} selects {run['selected']}, {which}, and {_norms(run)}; {', '.join(said)}."


def _against(run):
    """Statements whose hypotheses all hold, and which do not come true."""
    settled = [one for one in run["statements"] if not one["lacks"] and not one["open"]]
    return [one["name"] for one in settled if one["agrees"] is False]


def _nothing(run):
    """The line of a run that selects nothing."""
    most = f"most attention on {run['selected']}, {run['attention']:.3g} or more"
    if run["rests"]:
        where = f"rests at a finite point ({most}): it selects nothing"
    elif run["stopped"] and run["until"]:
        rests = f"rests at a finite point or could not be followed beyond log t = {run['until']:.0f}"
        where = f"{rests} ({most}): it selects nothing"
    elif run["stopped"]:
        return f"{_name(run)} could not be followed: no statement is tested."
    else:
        where = f"selects nothing, for no direction separates its tokens or it is on its way ({most})"
    against = _against(run)
    against = f"; AGAINST {', '.join(against)}" if against else ""
    return f"{_name(run)} {where}, and no statement on directions is tested{against}."


def _norms(run):
    """Which margins a run maximises or leans to, without a subject."""
    if not run["turned"]:
        return "has moved too little to tell: its direction is still that of the start"
    names = run["maximises"] or run["leans"]
    if not names:
        return "maximises none of these margins"
    verb = "maximises" if run["maximises"] else "leans to"
    said = f"{verb} the margin in {' or '.join(names)} ({run['norms'][names[0]]['share']:.1%} of the best)"
    return said + (", which this problem does not tell apart: take another problem" if len(names) > 1 else "")


def _losses(answer):
    """Where the first flow ends with each other loss."""
    first = answer["runs"][0]
    there = first["selected"] if first["norms"] else None
    parts = [f"with {end['loss']} loss {'it' if k else 'the first flow'} {_ends_at(end, there)}"
             for k, end in enumerate(answer["losses"])]  # fmt: skip
    return "; ".join(["W" + parts[0][1:], *parts[1:]]) + "."


def _ends_at(end, there):
    if end["selected"] is None:
        return "selects nothing"
    if end["selected"] != there:
        return f"ends at {end['selected']}"
    return "ends at the same tokens" + ("" if end["degrees"] is None else f" ({end['degrees']:.2g} degrees away)")


def _lag(lag):
    return ", no token scores higher" if lag is None else f", a better token has a lag of {lag:.3g}"


def _ends(run):
    """Tokens and direction of a run, in a few sentences."""
    which = "the best tokens" if run["best"] else "not the best tokens"
    time = f"at log t = {run['until']:,.0f}" if run["unit"] == "log t" else f"after {run['until']:,.0f} steps"
    if not run["norms"]:
        yield f"It ends {time}, length {run['length']:.4g}" + (f": {run['stopped']}." if run["stopped"] else ".")
        return
    yield (
        f"Selects {run['selected']}, {which}, {time}: least lead {run['lead']:.4g}, least attention"
        f" {run['attention']:.4g}, length {run['length']:.4g}."
    )
    for name, end in run["norms"].items():
        yield (
            f"{name:<9} {end['share']:7.2%} of the best margin{_at_first(end)}, {end['degrees']:.3g} degrees from the"
            f" separator found (length {end['length']:.4g}, gap {end['gap']:.0e})"
        )
    said = _norms(run)
    yield said[0].upper() + said[1:] + "."
    if run["change"] is not None and run["change"] > optimisers.SHORT:
        yield (
            f"Its steps are long: 95 % of them change a margin by up to {run['change']:.2g}, and shorter ones may come"
            " closer to a margin; take a smaller lr."
        )
    if run["lead"] < run["lead_before"]:
        yield (
            f"Unstable: since half of the time the least lead has fallen from {run['lead_before']:.4g} to"
            f" {run['lead']:.4g}; take a smaller lr."
        )
    if run["moved"] > optimisers.SETTLED:
        yield f"Not settled: since half of the time a share moved by {run['moved']:.2g}; take more --steps."


def _at_first(end):
    return "" if end["first"] is None else f" (at first {end['first']:.2%})"


def _predicted(run):
    """What the statements said of a run."""
    yield f"On that page it counts as: {claims.RULES[run['step']]}."
    if not run["norms"] and not run["rests"]:
        return
    true = [one for one in run["statements"] if not one["lacks"]]
    for one in true:
        known = {True: "and so it ends", False: "BUT IT DOES NOT", None: "which these steps neither show nor refute"}
        if claims.STATEMENTS[one["name"]][2:4] == (None, None):
            known[None] = "compare it with the shares above"
        if not run["norms"]:
            known[None] = "which is not tested, since nothing is selected"
        said = f" if {', '.join(one['open'])}, which is open" if one["open"] else ""
        if one["open"]:
            known[False] = "it does not, so either the one or the other fails"
        yield f"{one['name']} ({one['chapter']}) predicts {one['says']}{said}: {known[one['agrees']]}."
    if not true:
        yield "No statement of the book predicts where it ends."
    for one in run["statements"]:
        if one["lacks"]:
            yield f"{one['name']} does not apply: {', '.join(one['lacks'])}."


def _rounded(run):
    """Where 32 bits are enough for the textbook gradient, by automatic differentiation."""
    for name, said in (("predicted", "By the formula of the chapter on rounding"), ("measured", "Measured")):
        first = run["float32"][name]
        if first:
            at = f"log t = {first['time']:.3g}" if run["unit"] == "log t" else f"step {first['time']:,.0f}"
            yield f"{said}, the gradient in float32 is no longer right from {at} on, length {first['length']:.3g}."
    if not any(run["float32"].values()):
        yield "Float32 is enough for this run."
