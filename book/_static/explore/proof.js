// What proves that a separator is the shortest, or that there is none: the tests ask for it, and no page does, so
// it is in no bundle.
import * as engine from "./engine.js";

const { dot, length } = engine;
const cross = (a, b) => a[0] * b[1] - a[1] * b[0];

/**
 * {gap, certificate} of a separator of rows: the part by which its length may be too long, and the proof where it
 * is infeasible.
 *
 * The certificate has weights >= 0 with certificate . rows = 0 and certificate . required = 1.
 */
export function proof(rows, { feasible, theta, duals }, norm = 2, required = rows.map(() => 1)) {
  const weights = feasible || duals.some(Boolean) ? duals : (surrounding(rows) ?? duals),
    total = weights.reduce((sum, w, k) => sum + w * required[k], 0);
  if (!feasible) return { gap: NaN, certificate: weights.map((w) => (total > 0 ? w / total : 0)) };
  const combined = [0, 1].map((c) => rows.reduce((sum, row, k) => sum + duals[k] * row[c], 0));
  return { gap: 1 - total / length(combined, norm / (norm - 1)) / length(theta, norm), certificate: rows.map(() => 0) };
}

/**
 * Weights >= 0 of at most three rows that sum to zero: the proof that nothing separates them. Two axes stand in for
 * rows that are not needed.
 */
function surrounding(rows) {
  const all = [...rows, [1, 0], [0, 1]],
    tiny = 1e-13;
  let best = null,
    least = Infinity;
  for (let i = 0; i < all.length; i++)
    for (let j = 0; j < i; j++)
      for (let k = 0; k < j; k++) {
        const three = [i, j, k],
          [a, b, c] = three.map((row) => all[row]),
          turns = [cross(b, c), cross(c, a), cross(a, b)];
        const size = turns.map((turn, at) => Math.abs(turn) * (length([a, b, c][at]) || 1)),
          total = size[0] + size[1] + size[2];
        const sign = Math.sign(turns[size.indexOf(Math.max(...size))]);
        if (turns.some((turn, at) => size[at] > tiny * total && (turn * sign < 0 || three[at] >= rows.length)))
          continue;
        const spread = (dot(a, a) + dot(b, b) + dot(c, c)) / (total || 0);
        if (spread < least) [best, least] = [rows.map((_, row) => Math.abs(turns[three.indexOf(row)] ?? 0)), spread];
      }
  return best;
}
