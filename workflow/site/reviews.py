"""Film reviews as MiniLM reads them: keys and queries for the interactive figure, and what trains on the first page."""

import base64
import json
from pathlib import Path

import numpy as np

from workflow.book.catalogue import BookError, yaml_of

REVIEWS, RECORDED, HEADS = Path("book/reviews.yml"), Path("book/recorded/minilm/reviews.npz"), 12
STEP, STEPS = 0.1, 100  # of normalised descent, in units of the tokens' root mean square length
REST = slice(1, -1)  # of a review, without [CLS] and [SEP]


def texts():
    """Pieces of each review, by its place among those that are recorded."""
    return {place: line.split() for place, line in yaml_of(REVIEWS)["reviews"].items()}


def scripts():
    """Scripts that a page loads when a review is chosen, by name: keys and queries in float16, as base64."""
    if not REVIEWS.exists():
        return {}
    kept = recorded()
    files = {place: vectors(kept, place).tobytes() for place in texts()}
    return {
        f"{place}.js": f'(globalThis.HEADS ??= {{}})[{place}] = "{base64.b64encode(halves).decode()}";\n'
        for place, halves in files.items()
    }


def recorded():
    """Arrays of the recorded run, and where each review begins; BookError where a review has other pieces there."""
    kept = dict(np.load(RECORDED))
    kept["starts"] = np.concatenate([[0], np.cumsum(kept["lengths"], dtype=int)])
    for place, pieces in texts().items():
        marks = [2 if len(piece) == 1 and not piece.isalnum() else 3 for piece in pieces[REST]]
        if [min(max(kind, 2), 3) for kind in kept["kinds"][span(kept, place)]][REST] != marks:
            raise BookError(f"{REVIEWS}: review {place} has other pieces; give those of the recorded one")
    return kept


def span(kept, place):
    """Where the pieces of a review stand in a row."""
    return slice(*kept["starts"][place : place + 2])


def vectors(kept, place):
    """Queries and keys of a review, shape (2, layers, heads, pieces, columns of a head), in float16."""
    tokens = kept["tokens"][:, span(kept, place)].astype(np.float32)
    made = [
        tokens @ kept[side].astype(np.float32).transpose(0, 2, 1) + kept[f"{side}_bias"].astype(np.float32)[:, None]
        for side in ("query", "key")
    ]
    return np.stack(made).reshape(2, *tokens.shape[:2], HEADS, -1).swapaxes(2, 3).astype("<f2")


def shown():
    """What the figure reads: pieces of the reviews by place."""
    return {"words": json.dumps([[place, pieces] for place, pieces in texts().items()])}


def trained():
    """What the first page shows: words with their shares at the end, and their tokens' coordinates in their span.

    The tokens are what the last layer of MiniLM receives. The prompt is trained by the papers' one layer, on this
    review alone, from zero: its logits, and so its path, depend on the products of the tokens alone.
    """
    first, kept = yaml_of(REVIEWS)["first"], recorded()
    words = texts()[first["review"]][REST]
    tokens = kept["tokens"][-1, span(kept, first["review"])][REST].astype(float)
    keys = np.linalg.cholesky(tokens @ tokens.T)
    keys = (keys / np.sqrt((keys**2).sum(1).mean())).round(4)
    best = first["best"] - 1
    shares = attention(keys, best)[-1].tolist()
    shown = [
        {"text": word, "share": share, "percent": percent(share)} for word, share in zip(words, shares, strict=True)
    ]
    problem = {"keys": keys.tolist(), "step": STEP, "steps": STEPS, "best": best}
    picked = max(shown, key=lambda word: word["share"])
    even = percent(1 / len(words))
    return {"problem": json.dumps(problem), "words": shown, "picked": picked, "steps": STEPS, "even": even}


def percent(share):
    r"""A share as the page says it.

    Examples
    --------
    >>> percent(0.142), percent(0.9999)
    ('14\xa0%', '>\xa099\xa0%')
    """
    text = "> 99 %" if share >= 0.995 else "< 1 %" if share < 0.005 else f"{100 * share:.0f} %"
    return text.replace(" ", "\xa0")


def attention(keys, best):
    """Attention on the tokens at each step of normalised descent, where one scores 1 and the others 0."""
    import torch

    from lib.descent import normalised, run
    from lib.losses import logistic
    from lib.problem import Problem

    problem = Problem([keys.tolist()], [[float(t == best) for t in range(len(keys))]])
    path = run(problem, logistic, torch.zeros(len(keys)).double(), normalised(STEP), STEPS).theta
    return problem.logits(path).softmax(-1)[:, 0]
