// Attention in the plane: the arithmetic of the interactive figures, and nothing of a page.
//
// The same numbers as the library's, which tests/explore/test_engine.py compares on hundreds of problems:
// lib.kernels (gradient, step rules), lib.separators, lib.selection, lib.joint_paths and lib.published. A problem
// is {keys, scores}: keys[i][t] = [x, y], scores[i][t] a number.

const STEEP = 300; // margin at which a slope is given by its logarithm
const FAINT = 1e-100; // pull of the scores below which its logarithm is taken out
const NOTHING = -300; // logarithm of a part of attention that counts as none beside that
const AHEAD = 0.01; // how far a logit may be above that of the token that all are compared with
const PARTS = 64; // of one, between powers of e that are tabled: Math.exp itself is too slow
const PATIENCE = 2000; // steps of a flow
const SMOOTH = 1e-5; // error of one of them
const ROUNDING = 16 * 2 ** -52; // part of |row| |theta| that a margin may lack
const LONGEST = 1e9; // length of theta times the longest row above which it counts as none
const FAN = 60; // directions that are tried before the best one is refined
const FINE = 1e-7; // part of the angle to which it is known
const TIGHT = 1e-6; // how far from 1 the margin of a neighbour may be
const CONES = [0.01, 0.05, 0.2, 0.5, 0.7, 1, 1.4]; // half angles, in radians, of cones that a run may not leave
const OUT = [1, 1.1, 1.25, 1.5, 2, 3, 5, 10, 30, 100, 1e3, 1e4]; // lengths, in that of its end, at which they are looked at
const ACROSS = [-1, 1, 0, -0.75, 0.75, -0.5, 0.5, -0.25, 0.25]; // places from border to border
const STILL = 0.01; // part of its length by which a run with constant steps still moves at most
const LATE = 400; // log t to which it is then followed as a flow

export const losses = ["logistic", "exponential", "correlation"];

// ---- vectors ------------------------------------------------------------------------------------

export const dot = (a, b) => a[0] * b[0] + a[1] * b[1];
const cross = (a, b) => a[0] * b[1] - a[1] * b[0];
const minus = (a, b) => [a[0] - b[0], a[1] - b[1]];
const times = (c, a) => [c * a[0], c * a[1]];

/** sign(x) |x|^power of a number. */
const raise = (x, power) => (power === 1 ? x : Math.sign(x) * Math.abs(x) ** power);

/** Gradient of |x|_p^p / p. */
export const mirrorMap = (v, norm) => v.map((x) => raise(x, norm - 1));

const dual = (norm) => norm / (norm - 1);

/** The l_p norm; the entries are scaled, for a high power of anything but 1 overflows or vanishes. */
export function length(v, norm = 2) {
  if (norm === 2) return Math.sqrt(dot(v, v));
  const largest = Math.max(Math.abs(v[0]), Math.abs(v[1]));
  return largest && largest * (Math.abs(v[0] / largest) ** norm + Math.abs(v[1] / largest) ** norm) ** (1 / norm);
}

export const apart = (a, b) => length(minus(a, b));
export const unit = (v, norm = 2) => times(1 / length(v, norm), v);

/** The directional Bregman divergence of |x|_p^p / p, of a from b. */
export function divergence(a, b, norm) {
  const at = unit(b, norm);
  return dot(mirrorMap(at, norm), minus(at, unit(a, norm)));
}

/** 1 - cos of the angle: half the squared distance of the unit vectors, right down to 1e-32. */
export function oneMinusCosine(a, b) {
  const apart = minus(unit(a), unit(b));
  return dot(apart, apart) / 2;
}

// ---- gradient and descent -----------------------------------------------------------------------

const powers = Float64Array.from({ length: 2 - NOTHING * PARTS }, (_, k) => Math.exp(-k / PARTS));

/** Room for one problem's arithmetic at p. Inputs all have the same number of tokens. */
function workspace({ keys, scores }, p) {
  const stride = 3 * (keys[0].length - 1),
    room = {
      keys,
      scores,
      stride,
      p: Float64Array.from(p),
      rows: new Float64Array(keys.length * stride),
      own: new Float64Array(keys.length),
      found: new Float64Array(4),
    };
  refer(room);
  return room;
}

/**
 * Fill in room.own, the score of the token that p selects in each input, and room.rows: by how much all others
 * exceed it in x, y and score. Tokens on one spot share their attention at any p, so each counts with their mean
 * score.
 */
function refer(room) {
  const { keys, scores, rows, own } = room;
  let to = 0;
  selectedAt(room, room.p).forEach((top, i) => {
    const means = keys[i].map((key) => {
      const same = scores[i].filter((_, t) => !apart(key, keys[i][t]));
      return same.reduce((sum, score) => sum + (score - same[0]) / same.length, same[0]);
    });
    own[i] = means[top];
    keys[i].forEach((key, t) => {
      if (t === top) return;
      rows.set([...minus(key, keys[i][top]), means[t] - own[i]], to);
      to += 3;
    });
  });
}

/** Logarithm of the part of -loss' that slope(loss, margin) leaves out. */
const logSlope = (loss, margin) =>
  loss !== "correlation" && (loss === "logistic" ? margin : Math.abs(margin)) > STEEP ? -margin : 0;

/** -loss' at a margin, as a factor. */
function slope(loss, margin) {
  if (loss === "correlation" || logSlope(loss, margin) !== 0) return 1;
  return loss === "logistic" ? 1 / (1 + Math.exp(margin)) : Math.exp(-margin);
}

/**
 * Fill in room.found: the gradient at room.p up to a factor, and two numbers that have the factor's logarithm, the
 * one and log of the other.
 *
 * With rows and gaps from a token of input i it is loss' sum_t a_t (gap_t - sum_s a_s gap_s) row_t, two sums that
 * one loop takes. It runs while a token is dragged: no arrays or boxed numbers are made here, and the inner loop
 * calls nothing. The token is one with the largest logit, up to AHEAD, or the rows are filled in anew.
 */
function gradientIn(room, loss, anew = true) {
  const { stride, rows, own, found, p } = room,
    px = p[0],
    py = p[1];
  let gx = 0,
    gy = 0,
    scale = -Infinity,
    high = false;
  for (let i = 0; i < own.length; i++) {
    const first = i * stride,
      last = first + stride;
    let total = 1,
      pull = 0,
      shift = 0,
      ax = 0,
      ay = 0,
      bx = 0,
      by = 0;
    for (let t = first; t < last; t += 3) {
      const x = rows[t],
        y = rows[t + 1];
      let z = x * px + y * py;
      if (z < NOTHING) continue;
      if (z > AHEAD) {
        high = true;
        z = 0; // logits so large that they tie but for rounding, where the rows are anew
      }
      const k = (0.5 - PARTS * z) | 0,
        r = z + k / PARTS,
        q = r * r; // e^z = e^(-k / PARTS) e^r
      const odds = powers[k] * (1 + r + q * (1 / 2 + r * (1 / 6) + q * (1 / 24 + r * (1 / 120)))),
        lead = rows[t + 2] * odds;
      total += odds;
      pull += lead;
      ax += lead * x;
      ay += lead * y;
      bx += odds * x;
      by += odds * y;
    }
    if (high && anew) {
      refer(room);
      return gradientIn(room, loss, false);
    }
    if (Math.abs(pull) < FAINT) {
      // e^shift is taken out of the weights of all tokens with a gap
      shift = -Infinity;
      for (let t = first; t < last; t += 3)
        if (rows[t + 2] !== 0) shift = Math.max(shift, rows[t] * px + rows[t + 1] * py);
      if (shift === -Infinity) continue; // all tokens tie
      pull = ax = ay = 0;
      for (let t = first; t < last; t += 3) {
        const lead = rows[t + 2] && rows[t + 2] * Math.exp(rows[t] * px + rows[t + 1] * py - shift);
        pull += lead;
        ax += lead * rows[t];
        ay += lead * rows[t + 1];
      }
    }
    pull /= total;
    const margin = own[i] + (shift === 0 ? pull : pull * Math.exp(shift)),
      log = shift + logSlope(loss, margin);
    const part = log === scale ? 1 : Math.exp(-Math.abs(log - scale));
    let factor = -slope(loss, margin) / total;
    if (log < scale) factor *= part;
    else {
      gx *= part;
      gy *= part;
      scale = log;
    }
    gx += factor * (ax - pull * bx);
    gy += factor * (ay - pull * by);
  }
  const largest = Math.max(Math.abs(gx), Math.abs(gy)) || 1;
  found[0] = gx / largest;
  found[1] = gy / largest;
  found[2] = scale;
  found[3] = largest / own.length;
}
const logScale = ({ found }) => found[2] + Math.log(found[3]);

/** Gradient of the risk at any length of p: {direction, logScale}. */
export function gradient(problem, loss, p) {
  const room = workspace(problem, p);
  gradientIn(room, loss);
  return { direction: [...room.found.slice(0, 2)], logScale: logScale(room) };
}

export function softmax(logits) {
  const top = Math.max(...logits),
    odds = logits.map((z) => Math.exp(z - top)),
    total = odds.reduce((a, b) => a + b);
  return odds.map((o) => o / total);
}
/** Attention a[i][t] at p. */
export const attention = ({ keys }, p) => keys.map((tokens) => softmax(tokens.map((key) => dot(key, p))));

/**
 * Descend from a start: the iterates 0, ..., iterations as x0, y0, x1, y1, ...
 *
 * rule: {kind: "normalised" | "constant", size}. With a norm other than 2 by mirror descent, the normalised step in
 * the dual norm. Where the numbers end, the last iterate is repeated.
 */
export function descend(problem, loss, start, rule, iterations, norm = 2, every = 1) {
  const room = workspace(problem, start),
    path = new Float64Array(2 * (Math.floor(iterations / every) + 1));
  const { p, found } = room,
    inverse = 1 / (norm - 1);
  let [mx, my] = mirrorMap(start, norm),
    to = 2; // no arrays in the loop: it runs while a token is dragged
  path.set(p);
  for (let k = 1; k <= iterations; k++) {
    gradientIn(room, loss);
    const step = stepLength(room, rule, norm);
    mx -= step * found[0];
    my -= step * found[1];
    const x = raise(mx, inverse),
      y = raise(my, inverse);
    if (Number.isFinite(x - y)) {
      p[0] = x;
      p[1] = y;
    }
    if (k % every === 0) {
      path[to++] = p[0];
      path[to++] = p[1];
    }
  }
  return path;
}

function stepLength(room, rule, norm) {
  if (rule.kind === "constant") return rule.size * Math.exp(logScale(room));
  const size = length(room.found, dual(norm));
  return size === 0 ? 0 : rule.size / size;
}

/** log of a difference of the logistic loss: of a mean score e^log below the best one from that of the best one. */
const logLost = (log, best) =>
  log < -15
    ? log - Math.log1p(Math.exp(best))
    : Math.log(Math.log1p(Math.exp(Math.exp(log) - best)) - Math.log1p(Math.exp(-best)));

/** Polyak's steps from zero with the logistic loss: what the risk exceeds its infimum by, over twice the gradient. */
export function polyak(problem, iterations) {
  const { keys, scores } = problem,
    tops = optimalTokens(problem),
    path = new Float64Array(2 * iterations + 2);
  let p = [0, 0];
  for (let k = 1; k <= iterations; k++) {
    const losses = keys.map((tokens, i) => {
        const best = scores[i][tops[i]],
          logits = tokens.map((key) => dot(key, p) - dot(tokens[tops[i]], p)),
          lead = Math.max(...logits.filter((_, t) => t !== tops[i]));
        const lost = logits.reduce(
          (sum, z, t) => sum + (t === tops[i] ? 0 : Math.exp(z - lead) * (best - scores[i][t])),
          0,
        );
        return logLost(lead + Math.log(lost / logits.reduce((sum, z) => sum + Math.exp(z), 0)), best);
      }),
      most = Math.max(...losses),
      log = most + Math.log(losses.reduce((sum, one) => sum + Math.exp(one - most), 0) / keys.length);
    const { direction, logScale } = gradient(problem, "logistic", p);
    p = minus(p, times(Math.exp(log - logScale) / (2 * dot(direction, direction)), direction));
    path.set(p, 2 * k);
  }
  return path;
}

/** The point of a path at a place, which may be between two, and the last one. */
export function at(path, place) {
  const k = Math.floor(place),
    part = place - k;
  return [0, 1].map((c) => (part ? (1 - part) * path[2 * k + c] + part * path[2 * k + 2 + c] : path[2 * k + c]));
}
export const endOf = (path) => at(path, path.length / 2 - 1);

/**
 * The gradient flow from a start, to tau = log(1 + t) = last: {path, times}, its points and the tau of each.
 *
 * As lib.flow has it: all over sigma with d sigma = (1 + |v|) d tau, so that no speed is above 1; by the Runge-
 * Kutta pair of Bogacki and Shampine. A flow that rests at a point takes ever shorter steps, and ends there before
 * its time.
 */
export function flow(problem, loss, start, last) {
  const room = workspace(problem, [...start, 0]),
    { p, found } = room,
    now = p.slice(),
    path = [...start],
    times = [0];
  const speeds = new Float64Array(12); // four
  let h = 0.1;
  const moved = (c, a, b, d, e = 0) => h * (a * speeds[c] + b * speeds[c + 3] + d * speeds[c + 6] + e * speeds[c + 9]);
  const ahead = (to, a, b, d) => {
    for (let c = 0; c < 3; c++) p[c] = now[c] + moved(c, a, b, d);
    gradientIn(room, loss);
    const size = length(found) || 1,
      share = 1 / (1 + Math.exp(-p[2] - logScale(room)) / size);
    speeds[to] = (-share * found[0]) / size;
    speeds[to + 1] = (-share * found[1]) / size;
    speeds[to + 2] = 1 - share;
  };
  ahead(0, 0, 0, 0);
  for (let step = 0; step < PATIENCE && now[2] < last - SMOOTH; step++) {
    h = Math.min(h, (last - now[2]) / speeds[2]);
    ahead(3, 1 / 2, 0, 0);
    ahead(6, 0, 3 / 4, 0);
    ahead(9, 2 / 9, 1 / 3, 4 / 9);
    let error = 0;
    for (let c = 0; c < 3; c++) error += (moved(c, -5 / 72, 1 / 12, 1 / 9, -1 / 8) / SMOOTH) ** 2;
    if (error < 1) {
      now.set(p);
      speeds.copyWithin(0, 9);
      path.push(p[0], p[1]);
      times.push(p[2]);
    }
    h *= Math.min(Math.max(0.9 * error ** (-1 / 6), 0.2), 3);
  }
  return { path, times };
}

/** The place of a path at which a flow is at tau. */
export function placeAt(times, tau) {
  const k = times.findIndex((time) => time > tau);
  return k < 0 ? times.length - 1 : k - 1 + (tau - times[k - 1]) / (times[k] - times[k - 1]);
}

/** What a rule makes of a start: {path}, and the times of a flow, which goes to tau = iterations / 10. */
export function follow(problem, loss, start, rule, iterations, every = 1) {
  if (rule.kind === "flow") return flow(problem, loss, start, iterations / 10);
  return { path: descend(problem, loss, start, rule, iterations, 2, every) };
}

/** Index of the largest logit of each input, the first of those that tie. */
export function selectedAt({ keys }, p) {
  return keys.map((tokens) => {
    const logits = tokens.map((key) => dot(key, p));
    return logits.indexOf(Math.max(...logits));
  });
}

// ---- the published recipe -----------------------------------------------------------------------

/**
 * Gradient as automatic differentiation computes it, each operation rounded: Math.fround for 32 bits, identity for
 * 64. Labels are +1.
 */
export function textbookGradient({ keys, scores }, loss, p, round) {
  const share = round(1 / keys.length);
  let gx = 0,
    gy = 0;
  for (const [i, tokens] of keys.entries()) {
    const a = [], // no other array: it runs while a slider moves
      gamma = (t) => round(scores[i][t]);
    let top = -Infinity,
      total = 0,
      margin = 0,
      mean = 0;
    for (let t = 0; t < tokens.length; t++) {
      a.push(round(round(round(tokens[t][0]) * p[0]) + round(round(tokens[t][1]) * p[1])));
      top = Math.max(top, a[t]);
    }
    for (let t = 0; t < a.length; t++) total = round(total + (a[t] = round(Math.exp(round(a[t] - top)))));
    for (let t = 0; t < a.length; t++) margin = round(margin + round((a[t] = round(a[t] / total)) * gamma(t)));
    const e = round(Math.exp(-margin)),
      slope = loss === "correlation" ? -share : round(-round(e * round(share / round(1 + e))));
    for (let t = 0; t < a.length; t++) mean = round(mean + round(a[t] * round(gamma(t) * slope)));
    for (let t = 0; t < a.length; t++) {
      const weight = round(round(round(gamma(t) * slope) - mean) * a[t]);
      gx = round(gx + round(weight * round(tokens[t][0])));
      gy = round(gy + round(weight * round(tokens[t][1])));
    }
  }
  return [gx, gy];
}

/** Normalised descent as published, p <- p - size g / (|g| + epsilon): the iterates, and |g| at each but the last. */
export function descendTextbook(problem, loss, start, size, iterations, epsilon, round) {
  const path = new Float64Array(2 * (iterations + 1)),
    sizes = new Float64Array(iterations),
    [rate, small] = [round(size), round(epsilon)];
  let p = start.map(round);
  path.set(p);
  for (let k = 0; k < iterations; k++) {
    const g = textbookGradient(problem, loss, p, round),
      norm = round(Math.sqrt(round(round(g[0] * g[0]) + round(g[1] * g[1]))));
    const under = round(norm + small);
    p = p.map((x, j) => round(x - round(round(rate * g[j]) / under)));
    path.set(p, 2 * (k + 1));
    sizes[k] = norm;
  }
  return { path, sizes };
}

// ---- separators ---------------------------------------------------------------------------------

/** Rows k_selected - k_t of all inputs and other tokens. */
export function differenceRows({ keys }, selected) {
  return keys.flatMap((tokens, i) =>
    tokens.filter((_, t) => t !== selected[i]).map((key) => minus(tokens[selected[i]], key)),
  );
}

/** The shortest theta with row . theta = margin. */
function onOneRow(row, margin, norm) {
  const heading = mirrorMap(row, dual(norm)),
    size = dot(row, heading);
  return times(margin / size, heading);
}

/** The theta with row . theta = margin for two rows, refined once; undefined where they are parallel. */
function onTwoRows(a, b, r, s) {
  const area = cross(a, b);
  if (Math.abs(area) <= 1e-14 * length(a) * length(b)) return undefined;
  const solve = (u, v) => [(u * b[1] - v * a[1]) / area, (v * a[0] - u * b[0]) / area];
  const theta = solve(r, s),
    rest = solve(r - dot(a, theta), s - dot(b, theta));
  return minus(theta, times(-1, rest));
}

/** Multipliers of the rows named: their combination is the gradient of |theta|_p^2 / 2. */
function multipliers(rows, named, theta, norm) {
  const pull = times(length(theta, norm), mirrorMap(unit(theta, norm), norm));
  const [a, b] = named.map((k) => rows[k]);
  if (!b) return [dot(pull, a) / dot(a, a)];
  return [cross(pull, b) / cross(a, b), cross(a, pull) / cross(a, b)];
}

/**
 * Solve min |theta|_p such that rows theta >= required (1 when left out), in the plane and exactly: at most two
 * rows are active.
 *
 * {feasible, theta, duals, margins}; a theta longer than 1e9 / (longest row) counts as none.
 */
export function separator(rows, norm = 2, required = rows.map(() => 1)) {
  const sizes = rows.map((row) => length(row)),
    longest = Math.max(...sizes, 0),
    limit = (LONGEST * Math.max(...required)) / longest;
  let best = null,
    bestLength = Infinity;
  const consider = (theta, named) => {
    if (!theta) return;
    const size = length(theta),
      own = length(theta, norm);
    if (!(own > 0) || own > bestLength * (1 + 1e-12)) return;
    if (rows.some((row, k) => required[k] - dot(row, theta) > ROUNDING * size * sizes[k])) return;
    const lambda = multipliers(rows, named, theta, norm),
      least = Math.min(...lambda);
    // as short, and its multipliers are no better
    if (best && own > bestLength * (1 - 1e-12) && least <= best.least) return;
    best = { theta, named, lambda, least };
    bestLength = Math.min(own, bestLength);
  };
  rows.forEach((row, i) => {
    if (best?.least > 0 && dot(row, best.theta) > 1.001 * required[i]) return;
    if (dot(row, row) > 0 && required[i] > 0) consider(onOneRow(row, required[i], norm), [i]);
    for (let j = 0; j < i; j++) consider(onTwoRows(rows[j], row, required[j], required[i]), [j, i]);
  });
  const duals = rows.map(() => 0);
  if (best) best.named.forEach((k, j) => (duals[k] = Math.max(best.lambda[j], 0)));
  if (!best || length(best.theta) > limit) {
    return { feasible: false, theta: [0, 0], duals, margins: rows.map(() => 0) };
  }
  const least = Math.min(...rows.map((row, k) => (required[k] > 0 ? dot(row, best.theta) / required[k] : Infinity)));
  const theta = times(1 / least, best.theta);
  return { feasible: true, theta, duals, margins: rows.map((row) => dot(row, theta)) };
}

// ---- choices of tokens --------------------------------------------------------------------------

/** The token with the highest score of each input, the first of those that tie. */
export const optimalTokens = ({ scores }) => scores.map((row) => row.indexOf(Math.max(...row)));

/**
 * Whether rows surely have no common half-plane, where one is the first of all, counterclockwise: then no direction
 * separates them.
 */
const opposed = (rows) =>
  !rows.some((first) => rows.every((row) => cross(first, row) >= -1e-9 * length(first) * length(row)));

/**
 * Smallest lead of a chosen token's score over its neighbours, the tokens on the margin; Infinity without
 * neighbours.
 */
function scoreGap({ keys, scores }, selected, theta) {
  let gap = Infinity;
  keys.forEach((tokens, i) =>
    tokens.forEach((key, t) => {
      const margin = dot(minus(tokens[selected[i]], key), theta);
      if (t !== selected[i] && Math.abs(margin - 1) <= TIGHT)
        gap = Math.min(gap, scores[i][selected[i]] - scores[i][t]);
    }),
  );
  return gap;
}

/**
 * Every locally optimal choice of one token an input (Definition 2), in lexicographic order: {selected, separator,
 * best}.
 */
export function locallyOptimal(problem) {
  const { keys, scores } = problem,
    found = [];
  const extend = (selected, rows) => {
    const i = selected.length;
    if (i === keys.length) {
      const solution = separator(rows);
      const best = selected.every((token, input) => scores[input][token] === Math.max(...scores[input]));
      if (solution.feasible && scoreGap(problem, selected, solution.theta) > 0)
        found.push({ selected, separator: solution, best });
      return;
    }
    keys[i].forEach((key, token) => {
      const more = [...rows, ...keys[i].filter((_, t) => t !== token).map((other) => minus(key, other))];
      if (more.length && !opposed(more)) extend([...selected, token], more);
    });
  };
  extend([], []);
  return found;
}

/**
 * Offset of the limit from the ray of a separator, which has one row or two with a multiplier: {across: vector,
 * along: in lengths of theta}.
 */
export function limitOffset({ keys, scores }, loss, selected, solution) {
  const pullOf = (own, score) => logPull(loss, own, own - score);
  const pulls = keys.flatMap((tokens, i) =>
    tokens.flatMap((_, t) => (t === selected[i] ? [] : [pullOf(scores[i][selected[i]], scores[i][t])])),
  );
  const rows = differenceRows({ keys }, selected),
    largest = Math.max(...solution.duals),
    theta = unit(solution.theta),
    side = [-theta[1], theta[0]];
  const [a, b] = [...solution.duals.keys()]
    .filter((k) => solution.duals[k] > 1e-9 * largest)
    .map((k) => [dot(rows[k], side), pulls[k] - Math.log(solution.duals[k])]);
  // across, where a[0] part + along = a[1], and the same for b
  const part = b && Math.abs(a[0] - b[0]) > 1e-9 ? (a[1] - b[1]) / (a[0] - b[0]) : 0;
  return { across: times(part, side), along: a[1] - a[0] * part - Math.log(keys.length) };
}

/** log of -loss'(gamma) gap. */
function logPull(loss, gamma, gap) {
  const logSlope =
    loss === "correlation"
      ? 0
      : loss === "exponential"
        ? -gamma
        : -Math.max(gamma, 0) - Math.log1p(Math.exp(-Math.abs(gamma)));
  return logSlope + Math.log(gap);
}

/**
 * The line row . p = level that, far out, parts the starts that give up one of two inputs with two tokens each from
 * all others.
 *
 * The chapter on Figure 8 derives it: the one input, far beyond the margin, is pulled over if row . p is higher.
 * null where there is none.
 */
export function border({ keys, scores }, loss) {
  if (keys.length !== 2 || keys[0].length !== 2) return null;
  const best = optimalTokens({ scores }),
    rows = differenceRows({ keys }, best);
  const along = rows.map((row) => dot(row, row) + dot(...rows)),
    kept = along.findIndex((x) => x < 0);
  if (kept < 0) return null;
  const [high, low] = [0, 1].map((which) => scores.map((row, i) => row[which ? 1 - best[i] : best[i]])),
    lost = 1 - kept;
  const level =
    logPull(loss, high[kept], (high[kept] - low[kept]) * -along[kept]) -
    logPull(loss, low[lost], (high[lost] - low[lost]) * along[lost]);
  return Number.isFinite(level) ? { row: minus(rows[0], times(-1, rows[1])), level } : null;
}

// ---- the path of lowest risk ------------------------------------------------------------------------

/**
 * Mean score of one input at p: that of the token with the largest logit, and the sign and logarithm of what the
 * others change it by, which far out is below any number.
 */
function meanScore([keys], [scores], x, y) {
  let best = 0,
    top = -Infinity,
    total = 0,
    shift = -Infinity,
    change = 0;
  for (let t = 0; t < keys.length; t++) {
    const logit = keys[t][0] * x + keys[t][1] * y;
    if (logit > top) [best, top] = [t, logit];
  }
  for (let t = 0; t < keys.length; t++) {
    const lead = keys[t][0] * x + keys[t][1] * y - top;
    total += Math.exp(lead);
    if (scores[t] !== scores[best] && lead > shift) shift = lead;
  }
  for (let t = 0; t < keys.length; t++) {
    const gap = scores[t] - scores[best];
    if (gap) change += Math.exp(keys[t][0] * x + keys[t][1] * y - top - shift) * gap;
  }
  return { own: scores[best], sign: Math.sign(change), log: Math.log(Math.abs(change) / total) + shift };
}

/** Whether a mean score is above another one, however close both are to one token's score. */
function above(a, b) {
  if (a.own !== b.own) return a.own + a.sign * Math.exp(a.log) > b.own + b.sign * Math.exp(b.log);
  if (a.sign !== b.sign) return a.sign > b.sign;
  return a.sign > 0 ? a.log > b.log : a.sign < 0 && a.log < b.log;
}

/**
 * The regularisation path of one input: for each of these increasing lengths the p of lowest risk that is no longer,
 * and no shorter than the first of them, at most half to each side of an axis. Points as x0, y0, x1, ...
 *
 * A loss that decreases is lowest where the mean score is highest, so the path is the same for all of them.
 */
export function riskPath({ keys, scores }, lengths, axis, half = Math.PI, norm = 2) {
  const middle = Math.atan2(axis[1], axis[0]),
    path = [];
  const at = (angle, size) => times(size, unit([Math.cos(middle + angle), Math.sin(middle + angle)], norm));
  // and where two tokens tie or part fastest, and the separators: far out the lowest risk is in a narrow valley there
  const ways = keys[0].flatMap((key, t) => [
    ...keys[0].flatMap((other) => [minus(key, other), [other[1] - key[1], key[0] - other[0]]]),
    separator(differenceRows({ keys }, [t]), norm).theta,
  ]);
  const turned = ways.filter((way) => length(way) > 0).map((way) => Math.atan2(cross(axis, way), dot(axis, way)));
  const fan = [...Array.from({ length: FAN + 1 }, (_, k) => half * ((2 * k) / FAN - 1)), ...turned]
    .filter((angle) => Math.abs(angle) <= half)
    .map((angle) => [angle, at(angle, 1)]);
  let found = null,
    best = null,
    last = 0;
  for (const size of lengths) {
    let turn = -half,
      highest = null;
    const consider = (angle, [x, y]) => {
      const here = meanScore(keys, scores, size * x, size * y);
      if (!highest || above(here, highest)) [turn, highest] = [angle, here];
    };
    for (const [angle, heading] of fan) consider(angle, heading);
    consider(last, at(last, 1)); // where the path was
    for (let step = half / FAN; step > FINE * half; step /= 2) {
      const from = turn;
      for (const angle of [from - step, from + step]) if (Math.abs(angle) <= half) consider(angle, at(angle, 1));
    }
    last = turn;
    if (!best || above(highest, best)) [best, found] = [highest, at(turn, size)];
    path.push(...found);
  }
  return path;
}

// ---- head and prompt together -------------------------------------------------------------------

/**
 * What the joint path tends to, in the plane: features[i] = Y_i x_i of the chosen token, rows[i] the differences of
 * input i, ratio = r / R.
 *
 * {head, prompt, threshold, buffers, relaxed, tight}: the unit head, the unit u with the largest min over i, t of u
 * . rows[i][t] + ratio buffers[i] that has no u . rows[i][t] below 0; the ratio from which on it is the relaxed
 * SVM's. null where labels or tokens cannot be separated.
 */
export function jointLimit(features, rows, ratio) {
  const label = separator(features);
  if (!label.feasible) return null;
  const head = unit(label.theta),
    gamma = 1 / length(label.theta),
    support = label.margins.map((m) => m < 1 + TIGHT);
  const buffers = features.map((x, i) => (support[i] ? 0 : Math.max(dot(x, head) - gamma, 0)));
  const flat = rows.flat(),
    own = rows.flatMap((some, i) => some.map(() => buffers[i]));
  const relaxed = separator(
    flat,
    2,
    rows.flatMap((some, i) => some.map(() => (support[i] ? 1 : 0))),
  );
  const tight = separator(flat);
  if (!relaxed.feasible || !tight.feasible) return null;
  const size = length(relaxed.theta);
  const threshold = Math.max(
    0,
    ...flat.map((row, k) => (own[k] > 0 ? (1 - dot(row, relaxed.theta)) / (size * own[k]) : 0)),
  );
  const prompt =
    ratio >= threshold
      ? unit(relaxed.theta)
      : widest(
          flat,
          own.map((b) => ratio * b),
          tight.theta,
        );
  return { head, prompt, threshold, buffers, relaxed, tight };
}

/**
 * The unit u that maximises the least u . row + lift, with no u . row below 0; middle is one with all above 0. The
 * least falls to both sides.
 */
function widest(rows, lifts, middle) {
  const heading = (angle) => [Math.cos(angle), Math.sin(angle)];
  const least = (angle, raised) => Math.min(...rows.map((row, k) => dot(row, heading(angle)) + raised * lifts[k]));
  const value = (angle) => Math.min(least(angle, 0), 0) * 1e9 || least(angle, 1);
  let low = Math.atan2(middle[1], middle[0]) - Math.PI / 2,
    high = low + Math.PI;
  for (let k = 0; k < 100; k++) {
    const third = (high - low) / 3;
    if (value(low + third) < value(high - third)) low += third;
    else high -= third;
  }
  return heading(low);
}

// ---- where starts end ---------------------------------------------------------------------------

/**
 * The place of the choice to which a run tends that has come to p; -1 where that is not sure.
 *
 * It is sure where a cone around the choice's direction holds p, the pull leads into it all along its border and
 * outwards everywhere in it, from the length of p on: that is looked at in some places, up to 10⁴ times as far out.
 */
function tending(problem, loss, p, choices) {
  const chosen = ({ selected }, at) => selectedAt(problem, at).every((token, i) => token === selected[i]),
    place = choices.findIndex((one) => chosen(one, p)),
    size = length(p);
  if (place < 0 || !(size > 0)) return -1;
  const { theta } = choices[place].separator,
    middle = Math.atan2(theta[1], theta[0]),
    off = Math.abs(Math.atan2(cross(theta, p), dot(theta, p))),
    room = workspace(problem, p);
  const held = (half, far, side) => {
    const angle = middle + side * half,
      at = [far * size * Math.cos(angle), far * size * Math.sin(angle)];
    room.p.set(at);
    gradientIn(room, loss);
    const into = Math.abs(side) < 1 || cross(at, room.found) * side >= 0;
    return into && chosen(choices[place], at) && dot(room.found, at) < 0;
  };
  const sure = (half) => OUT.every((far) => ACROSS.every((side) => held(half, far, side)));
  return CONES.some((half) => off < 0.9 * half && sure(half)) ? place : -1;
}

/**
 * Where a run ends that has come to a point: the tokens with the largest logits there, the choice that it tends to,
 * as a place in choices (-1 where that is undecided), and 1 - cos to that choice's direction.
 *
 * Constant steps become the flow, which is followed on from there.
 */
export function outcome(problem, loss, rule, end, choices) {
  let place = tending(problem, loss, end, choices);
  if (place < 0 && rule.kind !== "normalised") {
    const { direction, logScale } = gradient(problem, loss, end);
    if (rule.kind === "flow" || rule.size * Math.exp(logScale) * length(direction) < STILL * length(end))
      place = tending(problem, loss, endOf(flow(problem, loss, end, LATE).path), choices);
  }
  const away = place < 0 || length(end) === 0 ? NaN : oneMinusCosine(end, choices[place].separator.theta);
  return { selected: selectedAt(problem, end), place, away };
}

/** The places of the choices at which a row of starts ends, so many between left and right at the height y. */
export function basins(problem, loss, rule, iterations, left, right, y, columns) {
  const choices = locallyOptimal(problem);
  return Array.from({ length: columns }, (_, c) => {
    const start = [left + ((c + 0.5) / columns) * (right - left), y],
      { path } = follow(problem, loss, start, rule, iterations, iterations);
    return outcome(problem, loss, rule, endOf(path), choices).place;
  });
}
