"""The film review of *In ten minutes*, and what a head of the film reader attends to in it: recorded runs."""

from pathlib import Path

import numpy as np

from workflow.book.catalogue import BookError, json_of, yaml_of

STORY, RECORDED = "book/story.yml", Path("book/recorded")
TIMES = {"before": "before training", "after": "after training", "alone": "head trained alone"}


def attention():
    """Words of the review, [CLS] last, and their attention at each time: a dict of lists."""
    story, arrays = yaml_of(STORY), recorded()
    words, rows = story["scene"]["words"], [arrays[time][story["review"], story["head"]] for time in TIMES]
    shares = [[round(float(row[k]), 4) for k in (*range(1, len(words) + 1), 0)] for row in rows]
    return {"words": [*words, "[CLS]"]} | dict(zip(TIMES, shares, strict=True))


def numbers():
    """Numbers that the page says; BookError where its words are not the review's, or another than the first decides."""
    story, arrays, shown = yaml_of(STORY), recorded(), attention()
    review, words = story["review"], story["scene"]["words"]
    texts = np.load(RECORDED / "film-reader/reviews.npz")["texts"]
    read = [str(word) for word in texts[review] if word][1:]
    blame = 1 - arrays["without"][review, : len(words)]
    scores = arrays["scores"][review, story["head"], 1 : 1 + len(words)]
    if read != words or blame.argmin() or scores.argmax() or np.argmax(shown["alone"]):
        raise BookError(f"{STORY}: review {review} is {' '.join(read)}; give its words, of which the first must decide")
    certain = 1 - arrays["praise"][review].item()
    settings = json_of(RECORDED / "film-reader-attention/l2.json")["settings"]
    return {
        "blame": certain,
        "blame-without": blame.min().item(),
        "before-largest": max(shown["before"][:-1]),
        "after-largest": max(shown["after"][:-1]),
        "iterations": settings["iterations"],
    }


def recorded():
    """Arrays of the recorded run by name."""
    return np.load(RECORDED / "film-reader-attention/attention.npz")
