"""Show rows of the ledger: verdicts and their signs, numbers and formulas, and a table with the rows as data."""

import html
import re
from dataclasses import asdict

MIME = "application/vnd.what-attention-selects.claims+json"
RELATIONS = {"<=": "at most", ">=": "at least", "==": "exactly"}
# Best first. A miniature is neither green nor red, and neither is an ablation that breaks a claim.
VERDICTS = {
    "reproduced": "✓",
    "corrected": "✎",
    "made explicit": "✎",
    "confirmed": "✓",
    "seen in miniature": "◐",
    "breaks the claim": "",
    "undecided": "?",
    "not seen in miniature": "○",
    "not reproduced": "✗",
    "refuted": "✗",
    "does not break the claim": "✗",
}
HELD = ("reproduced", "corrected", "made explicit", "confirmed", "seen in miniature", "breaks the claim")
OPEN_CLAIMS, OPEN_ABLATIONS = 6, 4  # in a table; a reader sees no more at once
SCALES = {
    "same data, smaller": "The paper's data set, a smaller network.",
    "stand-in": "Other data, sizes or thresholds than the paper's.",
}
POWERS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# Commands of TeX as a terminal can show them; any other is shown by its name.
LETTERS = {
    "ell": "ℓ", "eta": "η", "gamma": "γ", "lambda": "λ", "epsilon": "ε", "varepsilon": "ε", "beta": "β", "rho": "ρ",
    "theta": "θ", "infty": "∞", "cdot": "·", "times": "×", "le": "≤", "ge": "≥", "to": "→", "sqrt": "√", "sum": "Σ",
    "nabla": "∇", "langle": "⟨", "rangle": "⟩", "pi": "π", "mu": "μ", "alpha": "α", "delta": "δ", "neq": "≠",
    "frac": "", "left": "", "right": "", ",": " ", "|": "‖",
}  # fmt: skip


class Verdict:
    """Rows as a notebook shows them: a table for the reader, the same rows as data for the workflow."""

    def __init__(self, rows):
        self.rows = rows

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": repr(self), "text/html": self._html(), MIME: [asdict(row) for row in self.rows]}

    def __repr__(self):
        return "\n".join(
            f"{signed(row.verdict):<24} {number(row.measured):>12}  {bound(row.relation, row.bound):<18} "
            f"{named(row)}{plain(row.statement)}"
            for row in self.rows
        )

    def _html(self):
        shown, folded = _open_rows(self.rows)
        return _table(shown) + _more(folded)


def signed(verdict):
    """A verdict with its sign; a baseline, which has None, has no verdict."""
    return f"{VERDICTS[verdict]} {verdict}".strip() if verdict else "baseline"


def number(value):
    """A number as one would write it: three digits, and a power of ten where it is very large or small."""
    if value == 0 or (abs(value) < 1e6 and value == int(value)):
        return typeset(f"{value:,.0f}")
    if 1e-3 <= abs(value) < 1e5:
        return typeset(f"{value:.3g}" if abs(value) < 1e3 else f"{value:,.0f}")
    digits, _, power = f"{value:.2e}".partition("e")
    return typeset(f"{digits.rstrip('0').rstrip('.')}e{power}")


def typeset(text):
    """A number that Python has written, with the sign for minus and a power of ten: −2 × 10⁻⁴ for -2e-04."""
    digits, _, power = text.partition("e")
    digits = digits.replace("-", "−")
    if not power:
        return digits
    power = "10" + str(int(power)).translate(POWERS)
    return power if digits == "1" else f"{digits} × {power}"


def bound(relation, value):
    """A bound in words: "at most 0.001"; nothing for a baseline."""
    return "" if value is None else f"{RELATIONS[relation]} {number(value)}"


def between(interval):
    """An interval in words; nothing where there is none."""
    return f"{number(interval[0])} to {number(interval[1])}" if interval else ""


def plain(text):
    """A statement with its formulas as a terminal can show them."""
    shown = re.sub(r"\\(?:mathrm|mathbf|operatorname|text)\{([^{}]*)\}", r"\1", text)
    shown = re.sub(r"\\norm\{((?:[^{}]|\{[^{}]*\})*)\}", r"‖\1‖", shown)
    shown = re.sub(r"\\([A-Za-z]+|[,|])", lambda match: LETTERS.get(match[1], match[1]), shown)
    return re.sub(r"[${}]", "", shown)


def formulas(text):
    """A statement as HTML, with its formulas for MathJax, which a page of Sphinx and JupyterLab have."""
    parts = html.escape(text).split("$")
    formula = '<span class="math notranslate nohighlight">\\({}\\)</span>'
    return "".join(formula.format(part) if k % 2 else part for k, part in enumerate(parts))


def named(row):
    """The paper's name for a row's item; "" for a name of the book's, and for a result that the paper does not name."""
    return "" if not row.paper or re.fullmatch(r"[RM]\d", row.item) else f"{row.item}: "


def remarks(row):
    """What a reader must know beside a row's statement: a correction, a dropped hypothesis, other data."""
    said = (
        "The paper's words were not at hand." if row["source"] == "recalled" else "",
        SCALES.get(row["scale"], ""),
        f"Printed: “{row['quote']}”" if row["quote"] else "",
        f"Dropped: {row['breaks']}." if row["breaks"] else "",
        row["note"],
    )
    return " ".join(filter(None, said))


def _open_rows(rows):
    """The rows that are open, at most six claims and four ablations, and those that are folded under them."""
    claims = [row for row in rows if row.kind == "claim"]
    ablations = [row for row in rows if row.kind == "ablation"]
    if len(claims) <= OPEN_CLAIMS and len(ablations) <= OPEN_ABLATIONS:
        return rows, []
    shown = [*claims[:OPEN_CLAIMS], *ablations[:OPEN_ABLATIONS]]
    return shown, [row for row in rows if row not in shown]


def _table(rows):
    head = "<tr><th>Verdict</th><th>What was measured</th><th>Number</th><th>Bound</th></tr>"
    body = "".join(map(_html_row, rows))
    return f'<table class="verdicts"><thead>{head}</thead><tbody>{body}</tbody></table>'


def _more(rows):
    if not rows:
        return ""
    said = f"{len(rows)} more rows" if len(rows) > 1 else "One more row"
    return f'<details class="fold"><summary>{said}</summary>{_table(rows)}</details>'


def _html_row(row):
    small, interval = formulas(remarks(asdict(row))), between(row.interval)
    return (
        f'<tr class="{(row.verdict or row.kind).replace(" ", "-")}"><td>{signed(row.verdict)}</td>'
        f"<td>{formulas(named(row) + row.statement)} {f'<small>{small}</small>' * bool(small)}</td>"
        f"<td>{number(row.measured)}{f'<small>{interval}</small>' * bool(interval)}</td>"
        f"<td>{bound(row.relation, row.bound) or '–'}</td></tr>"
    )
