"""Ask of all-MiniLM-L6-v2, which people use, what the three papers and this book say of attention.

What stood here before the first run. An independent reader had looked at this model on 200 film reviews, at queries of
all tokens: shares of attention, the kinds of token that are selected, flips by rounding, bits, the cosine of W to the
max-margin W of its choices beside random heads, effective ranks, leads below ceilings, the part from W of the leans of
`your-attention`. So every row on film reviews, and every row on the weights alone, counts as set after. Nobody had
looked at other sentences, at shuffled choices, or at descent on the tokens of this model; these rows count as before.
A text is cut at 32 pieces; every token asks, in all 72 heads, unless a line says otherwise.

Editorials: 100 snippets of newspaper editorials from the same archive, drawn by seed 0.
(a) At most half of the choices have more than .9 of the attention: the papers' saturation is not there.
(b) At least .6 of the choices are [CLS] or [SEP].
(c) Flips counted over forecast, all choices pooled, mean over 3 to 6 bits a row: within .15 of 1.
(d) Rank correlation over heads of forecast and counted flips at 4 bits: at least .8.
(e) The forecast bits that keep 95 % of the choices are right to within one for at least .95 of the heads.
(f) One query of each of 12 texts: the median cosine of W to the max-margin W of the head's own choices is at most .1,
the median share of the best margin at most .01. The least lead is at most half of its ceiling in the spectral ball of
the head's own W, in every head.

Film reviews. (g) The median cosine of W to the max-margin W of shuffled choices (one token of each text at random) is
below that to the max-margin W of its own choices.

The theorems' own model on tokens of MiniLM: tokens are what the last layer receives of 48 film reviews, frozen, in
units of their root mean square length; the query is that of [CLS]; W is 384 x 384; the head u is fixed, the sum over
reviews of their label times the mean of their tokens, less the mean of all tokens, of length 1; labels are the signs of
the ratings; logistic loss, full batch. Steps of normalised descent are .02 |W_mm| long, 2,000 of them.
(h) Tokens of different reviews are not nearly orthogonal: the median |cos| is at least .1.
(i) The best tokens are separable by W, and so are 8 random selections: a share of 1.
(j) With one prompt for all reviews none of these is: a share of 0.
(k) R1: of the runs from W = 0 and from 8 starts, of 3 |W_mm|, each at the separator of a random selection, at least .9
end on the best tokens.
(l) Of 12 selections that are best but in one review, where the second-best token is selected, at least .05 are locally
optimal: there are wrong limits.
(m) Theorem 3: starts at 20 times the separators of those that are locally optimal keep their tokens, a share of 1; the
same of those that are not is an ablation.
(n) R2: from W = 0 the log distance of the direction to W_mm falls with log t with a slope of at most -.5, second half.
(o) R3: the exponent of 1 - (attention on the best token), worst review, is eta / |W_mm| to within .1 of it, last half.
(p) R5: gradient descent whose first step is as long as that of normalised descent has, after as many steps, at least a
hundred times as much attention elsewhere (mean over reviews).
(q) R6: Polyak's steps from W = 0 end on the best tokens.
The same (h) to (o) of 200 reviews, without other starts, recorded.
(r) Paper 3, six reviews, W = 0, p = 1.1, 2 and 3, normalised mirror descent, five draws of reviews: the nearest of the
three separators of the run's own tokens, in the directional Bregman divergence of the run's p, is that of its own p in
at least .9 of the runs; (s) p = 1.1 has the fewest entries that count, p = 3 the most, in every draw.
R4 is left out: joint training needs tokens that are a signal, which these are not.
"""
