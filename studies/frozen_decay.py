"""Train key-query matrices with weight decay on frozen tokens of a pretrained transformer, against printed predictions.

Tokens are what the last layer of all-MiniLM-L6-v2 receives, the query is that of [CLS], scores are those of a fixed
linear head, as in :mod:`studies.frozen_tokens`. Rates gamma, step size times decay, fall like 1 / sqrt(k) from `PACE`;
each run has the decays with which the best tokens have the ceilings `CEILINGS` if steps have norm 1.

What stood here before the first recorded run, when a trial on reviews 0 to 7 had shown that with the theorems' risk
steps from W = 0 end on other tokens in half of the reviews. So the loss is -log of attention on the best tokens: which
tokens lead is fixed beforehand, all c of the law are 1, and ceiling and D are computed before a run. There are two
sets of reviews. Of each run a share is its least lead over the ceiling, its error that from ceiling less D.

(a) Exact Muon on W and on K and Q: no share exceeds 1.001 (proved), the error is at most .04 under 15 and 30.
(b) AdamW (betas .9 and .95, no epsilon) on W: the same, where .04 and 1.001 are not proved.
(c) AdamW on K and Q: the error is at most .1 under 15 and 30; no share exceeds 1.001 (not proved).
(d) torch's Muon, over the ceiling with the factor of its shape: shares from .45, its least singular value squared, to
1.446, the largest squared, under 15 and 30.
(e) Steps of one rate, highest ceiling. With the fixed loss the size of K and Q is at least .8 of the ball, which binds.
If one review a step selects a token drawn at random, the size is within a factor of 1.5 of that under Gaussian
gradients, the equilibrium; that of AdamW is within .1 of sqrt(rate / 2), relative.
(f) Language model: rules, schedule and shapes of :mod:`studies.language_model` under Gaussian gradients, whose sizes
were compared with those of its trained heads before this was written; so rows on them count as set after.

The trial had shown exact Muon on W, too. When the run of reviews 100 to 107 had ended and that of 108 to 115 had not,
(b), (c) and (d) had failed: AdamW was 5 to 24 % below the law, and torch's Muon had .40 and .45, since (d) forgets D.
Added then, for reviews 108 to 115: (g) torch's Muon ends within .04, relative, of .485 times the ceiling less D, where
.485 is the square of what its Newton-Schulz steps make of a singular value of 1. And for AdamW on K and Q of reviews
100 to 107, with `LONGER` steps: (h) the error under 15 is at most .05, and the first runs had ended too early.
"""

import itertools
import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot, softplus

from lib.problem import Problem
from lib.selection import optimal_tokens
from lib.steepest import steepest_direction
from studies import frozen_tokens, language_model, minilm, real_heads, real_transformer, unit_balls
from studies.archives import Run
from studies.language_model import BALLS, DECAYS

CEILINGS = (5.0, 15.0, 30.0)
COLUMNS, TEXTS, FEW = 32, 8, 3  # of a head; reviews of a run, and of those on which AdamW trains keys and queries
FIRST = (100, 108)  # reviews that no other study of this model reads
PACE, CONSTANT, STEPS, LONG = 0.1, 0.01, 1000, 1500  # LONG for AdamW: its leads grow by at most .026 a step
LONGER = 4000
EPSILON = 1e-40  # the defaults of AdamW and Muon stop the lead


class Texts(NamedTuple):
    """The theorems' problem on a few reviews, and a constraint for each token that is not the best of its review.

    away : Tensor (m, d), best token less the other; of : (m,), its review.
    """

    problem: Problem
    best: Tensor
    others: Tensor
    away: Tensor
    of: Tensor


def texts_of(arrays, first, count):
    """:class:`Texts` of some of the reviews that :func:`studies.real_transformer.received` gives."""
    problem = frozen_tokens.problem_of(real_heads.as_texts(arrays), torch.arange(first, first + count))
    best, at = optimal_tokens(problem), torch.arange(count)
    others = problem.mask & ~one_hot(best, problem.keys.shape[1]).bool()
    away = (problem.keys[at, best][:, None] - problem.keys)[others]
    return Texts(problem, best, others, away, others.nonzero()[:, 0])


def reduced(texts):
    """The same with queries as coordinates in their span: no singular value changes, and W has n columns."""
    queries = torch.linalg.qr(texts.problem.queries.mT).R.mT
    return texts._replace(problem=Problem(texts.problem.keys, texts.problem.scores, queries, mask=texts.problem.mask))


def constant(weights):
    """D of the law, how far the least lead stays below the ceiling; all c are 1, as the loss only asks to select."""
    on = weights > 1e-4
    log = torch.where(on, -weights.log(), 0.0)
    return ((weights * log).sum() - log[on].min()).item()


def polar(weights, decays):
    """Exact Muon without memory as an optimiser of torch would be: its function ``step``, of rates gamma."""

    def step(rate):
        for pair, decay in zip(weights, decays, strict=True):
            for part in pair:
                way = steepest_direction(part.grad.flatten(), "spectral", part.shape).view(part.shape)
                part.data.mul_(1 - rate).sub_(rate / decay * way)

    return step


def of_class(kind, weights, decays, **options):
    """The same for a class of torch.optim: its step size is the rate over the decay of each pair."""
    groups = [{"params": pair, "weight_decay": decay} for pair, decay in zip(weights, decays, strict=True)]
    made = kind(groups, **options)

    def step(rate):
        for group in made.param_groups:
            group["lr"] = rate / group["weight_decay"]
        made.step()

    return step


def adamw(weights, decays, eps=EPSILON):
    """AdamW with the betas of language models."""
    return of_class(torch.optim.AdamW, weights, decays, betas=(0.9, 0.95), eps=eps)


def muon(weights, decays, eps=EPSILON):
    """torch's Muon at its defaults but for eps."""
    return of_class(torch.optim.Muon, weights, decays, eps=eps)


def started(texts, decays, maker, power, seed):
    """W = 0 for each decay, or keys and queries of a tenth of the ball's size: a list of one or two parameters each."""
    d, e = texts.away.shape[1], texts.problem.queries.shape[1]
    if power == 1:
        return [[nn.Parameter(torch.zeros(d, e, dtype=torch.float64))] for _ in decays]
    draw, small = torch.Generator().manual_seed(seed), 0.1 if maker is adamw else 0.1 / math.sqrt(d)
    return [
        [
            nn.Parameter(small / decay * torch.randn(size, COLUMNS, generator=draw, dtype=torch.float64))
            for size in (d, e)
        ]
        for decay in decays
    ]


def logits_of(texts, pair):
    """Logits (n, T) of [W] or [K, Q]."""
    queries = texts.problem.queries @ pair[1] if len(pair) > 1 else texts.problem.queries
    return texts.problem.seen(((texts.problem.keys @ pair[0]) * queries[:, None]).sum(-1))


def select(texts, pair):
    """Mean of -log of the attention on the best tokens, exact at any lead."""
    logits = logits_of(texts, pair)
    leads = logits.gather(-1, texts.best[:, None]) - logits
    return torch.log1p(torch.where(texts.others, (-leads).exp(), 0.0).sum(-1)).mean()


def risk(texts, pair):
    """The theorems' risk: mean logistic loss of the score that attention reads."""
    attention = logits_of(texts, pair).softmax(-1)
    return softplus(-(attention * texts.problem.scores).sum(-1)).mean()


def trained(texts, weights, step, steps, loss=select, rate=lambda k: PACE / math.sqrt(k + 1)):
    """Least leads of the best tokens at the end, and how many reviews select another token."""
    for k in range(steps):
        for part in itertools.chain(*weights):
            part.grad = None
        sum(loss(texts, pair) for pair in weights).backward()
        step(rate(k))
    with torch.no_grad():
        ends = [logits_of(texts, pair) for pair in weights]
    leads = [(end.gather(-1, texts.best[:, None]) - end)[texts.others].min().item() for end in ends]
    return {"lead": leads, "other": [int((end.argmax(-1) != texts.best).sum()) for end in ends]}


def drawn(draw):
    """A loss for :func:`trained`: one review a step is to select a token drawn from all of its own."""

    def loss(texts, pair):
        review = int(torch.randint(len(texts.best), (), generator=draw))
        chances = logits_of(texts, pair)[review].log_softmax(-1)
        tokens = texts.problem.mask[review].nonzero()[:, 0]
        return -chances[tokens[torch.randint(len(tokens), (), generator=draw)]]

    return loss


def noise(draw):
    """A loss whose gradients are Gaussian and independent of the weights."""
    return lambda texts, pair: sum((part * torch.randn(part.shape, generator=draw)).sum() for part in pair)


def size(pair, ball):
    """Size of K and Q, geometric mean, 1 on the surface of the ball: root mean square entry or spectral norm."""
    parts = [part.square().mean().sqrt() if ball == "sign" else torch.linalg.matrix_norm(part, 2) for part in pair]
    return (parts[0] * parts[1]).sqrt().item()


def of_texts(texts, few, seed):
    """Everything that a run records of its reviews: ``few`` are those on which AdamW trains keys and queries."""
    near, width = reduced(texts), texts.away.shape[1]
    longer = width / COLUMNS  # the square of the factor of torch's Muon
    balls = {"W-muon": (near, unit_balls.spectral), "W-adamw": (texts, unit_balls.signs),
             "KQ-adamw": (few, unit_balls.products_of_signs(few.problem.queries))}  # fmt: skip
    bounds = {name: unit_balls.multipliers(known.away, known.of, known.problem.queries, best)
              for name, (known, best) in balls.items()}  # fmt: skip
    bounds["KQ-muon"] = bounds["KQ-torch-muon"] = bounds["W-muon"]
    ways = {
        "W-muon": (near, polar, 1, STEPS), "W-adamw": (texts, adamw, 1, LONG), "KQ-muon": (near, polar, 1, STEPS),
        "KQ-torch-muon": (texts, muon, longer, STEPS), "KQ-adamw": (few, adamw, COLUMNS, LONG),
    }  # fmt: skip
    found = {}
    for name, (known, maker, scale, steps) in ways.items():
        highest, reached, weights = bounds[name]
        power = 1 if name.startswith("W") else 0.5
        decays = [(scale * highest / ceiling) ** power for ceiling in CEILINGS]
        start = started(known, decays, maker, power, seed)
        ends = trained(known, start, maker(start, decays), steps)
        found[name] = ends | {"gap": 1 - reached / highest, "D": constant(weights)}
        if name == "W-muon":
            start = started(known, decays, maker, power, seed)
            found["risk"] = trained(known, start, maker(start, decays), steps, risk)["other"]
    decays = {"KQ-adamw": (COLUMNS * bounds["KQ-adamw"][0] / CEILINGS[-1]) ** 0.5,
              "KQ-torch-muon": (longer * bounds["W-muon"][0] / CEILINGS[-1]) ** 0.5}  # fmt: skip
    return found | {"size": {name: sizes(*ways[name][:2], decay, seed) for name, decay in decays.items()}}


def longer_adamw(few, steps, seed):
    """AdamW on keys and queries for more steps."""
    ball = unit_balls.products_of_signs(few.problem.queries)
    highest, reached, weights = unit_balls.multipliers(few.away, few.of, few.problem.queries, ball)
    decays = [(COLUMNS * highest / ceiling) ** 0.5 for ceiling in CEILINGS]
    start = started(few, decays, adamw, 0.5, seed)
    ends = trained(few, start, adamw(start, decays), steps)
    return ends | {"gap": 1 - reached / highest, "D": constant(weights)}


def sizes(texts, maker, decay, seed):
    """Size of keys and queries over that of the ball, after steps of one rate, as three losses have it.

    The size is the geometric mean of K's and Q's: root mean square entry with AdamW, spectral norm with Muon.
    """
    draw, found = torch.Generator().manual_seed(seed), {}
    for about, loss in (("fixed", select), ("drawn", drawn(draw)), ("noise", noise(draw))):
        start = started(texts, [decay], maker, 0.5, seed)
        trained(texts, start, maker(start, [decay]), STEPS, loss, lambda k: CONSTANT)
        if maker is adamw:
            parts = [part.square().mean().sqrt() for part in start[0]]
        else:
            parts = [torch.linalg.matrix_norm(part, 2) / math.sqrt(len(part) / COLUMNS) for part in start[0]]
        found[about] = decay * math.sqrt(float(parts[0] * parts[1]))
    return found


def noises(seed, steps=language_model.STEPS):
    """Root mean square entry of K and Q over that of the ball, by rules of the language model on Gaussian gradients."""
    found, shape = {}, (2, 1, 4, language_model.WIDTH, language_model.COLUMNS)
    for name in DECAYS:
        draw, step, factors = torch.Generator().manual_seed(seed), language_model.rule_of(name), torch.zeros(shape)
        for k in range(steps):
            share = 2 * language_model.RATES / steps * (1 - k / steps)
            factors.mul_(1 - share).add_(share * step(torch.randn(shape, generator=draw), k))
        found[name] = (root_mean_square(factors).median() / surface(BALLS[name])).item()
    return found


def root_mean_square(factors):
    """Of the entries of each matrix (..., d, r)."""
    return factors.square().mean((-2, -1)).sqrt()


def surface(ball, width=language_model.WIDTH, columns=language_model.COLUMNS):
    """Largest root mean square entry of a matrix of the language model in a ball of radius 1."""
    return {"sign": 1.0, "spectral": 1 / math.sqrt(width), "nuclear": 1 / math.sqrt(2 * width * columns)}[ball]


def plan():
    """All runs, by name."""
    runs = {f"reviews-{first}": Run({"first": first, "seed": first}) for first in FIRST}
    return runs | {"noise": Run({"seed": 0}), "longer": Run({"first": FIRST[0], "seed": FIRST[0], "steps": LONGER})}


STUDIES = {"frozen-decay": plan}


def make(study, run, known):
    """Make a run; its settings and its results."""
    torch.set_num_threads(1)
    if "first" not in run.settings:
        return run.settings, {"noise": noises(**run.settings)}
    first, seed = run.settings["first"], run.settings["seed"]
    arrays = real_transformer.received(minilm.read(), *real_transformer.texts_of("film", first + TEXTS))
    few = texts_of(arrays, first, FEW)
    if steps := run.settings.get("steps"):
        return run.settings, {"KQ-adamw": longer_adamw(few, steps, seed)}
    return run.settings, of_texts(texts_of(arrays, first, TEXTS), few, seed)


def data_of(run):
    """Files that a run reads, each with its published hash."""
    return real_transformer.data_of(run) if "first" in run.settings else {}
