// What the figures ask before they show it. Each answer is computed when it is asked for; none is written here.
import * as engine from "./engine.js";
import * as ballFigure from "./ball.js";
import * as coneFigure from "./cone.js";
import * as dialFigure from "./dial.js";
import * as playgroundFigure from "./playground.js";
import * as roadFigure from "./road.js";
import { rounded } from "./view.js";

const { preset, solve } = playgroundFigure;
/** A function that is asked at each frame, and computes once. */
const once = (compute) => {
  let found;
  return () => (found ??= compute());
};
const close = (a, b) => Math.abs(a - b) < 1e-6;
const degrees = (away) => (Math.acos(Math.min(1 - away, 1)) * 180) / Math.PI;
/** The place of the number that is nearest, as a ratio. */
const nearest = (numbers, x) => {
  const far = numbers.map((one) => Math.abs(Math.log(one / x)));
  return far.indexOf(Math.min(...far));
};
const locals = (state) => engine.locallyOptimal(state).filter(({ best }) => !best).length;
const text = JSON.stringify;

/** What no answer depends on: where one looks, and at what. */
const IDLE = new Set(["view", "zoom", "map", "shown", "grown", "measure", "path", "start", "at"]);
/**
 * A question that is answered by the state that it shows; parts are {name: is(value)}, what may be otherwise there.
 * The one condition under which its answer is shown, and under which its sentence must be true.
 */
const asked = ({ parts = {}, ...question }) => ({
  ...question,
  seen: (state) =>
    Object.entries(question.show()).every(([name, value]) =>
      name in parts ? parts[name](state[name]) : IDLE.has(name) || text(value) === text(state[name]),
    ),
});

// ---- playground: Figure 1 ---------------------------------------------------------------------------

const third = (score) => ({ ...preset("1(a)"), scores: [[1, 0.9, score]] });
/** The first score of token 3 with a second limit, from 0.9 down in steps of the slider. */
const parting = once(() => {
  for (let k = 18; k >= -20; k--) if (locals(third(k / 20))) return k / 20;
  return NaN;
});
/** How many starts go to a choice that is not the best. */
const strayed = (state) => {
  const { ends, choices } = solve(state);
  return ends.filter(({ place }) => place >= 0 && !choices[place].best).length;
};
const FLOW = { ...preset("1(a)"), step: "flow" };
const DEGREES = [1e-4, 1, 30];
const turning = () => Math.max(...solve(FLOW).ends.map(({ away }) => degrees(away)));

const figure1 = {
  score: {
    ask: "Tokens 2 and 3 of Figure 1(a) both score 0.9. At which score of token 3 does a second limit appear?",
    options: ["as soon as it is below 0.9", "only below 0.5", "only below 0"],
    answer: () => (parting() >= 0.5 ? 0 : parting() >= 0 ? 1 : 2),
    told: () => `It is there at ${parting()}: token 2 then beats its neighbour, and by how much does not matter.`,
    show: () => third(parting()),
    parts: { scores: ([[one, two, three]]) => one === 1 && two === 0.9 && locals(third(three)) > 0 },
  },
  count: {
    ask: "Lower the score of token 3 to 0. How many of the six starts turn to the second limit?",
    options: ["none", "two", "all six"],
    answer: () => [0, 2, 6].indexOf(strayed(third(0))),
    told: () => `${strayed(third(0))} of 6: a limit has its own starts, and all others still go to the best token.`,
    show: () => third(0),
  },
  flow: {
    ask: "Let the gradient flow of Figure 1(a) run to log t = 100. How far is the farthest run from its limit?",
    options: ["0.0001°", "about 1°", "about 30°"],
    answer: () => nearest(DEGREES, turning()),
    told: () =>
      `It is ${turning().toFixed(1)}° away: the length of the query grows like log t, and the angle falls ` +
      `like its inverse.`,
    show: () => FLOW,
    parts: { shown: (shown) => shown === 1000 },
  },
};

// ---- playground: Figures 5 and 8 --------------------------------------------------------------------

const scored = (loss, high) => ({
  ...preset("5"),
  loss,
  scores: [
    [0, high],
    [0, 1],
  ],
});
/** Degrees by which the path of Figure 5 ends above its ray, which is level. */
const bent = (loss) => {
  const [x, y] = engine.endOf(solve(scored(loss, 100)).runs[0].path);
  return (Math.atan2(y, x) * 180) / Math.PI;
};
const bend = (loss, words) => ({
  ask: `Raise C, the score of the upper token, to 100, ${words}. To which side does the path bend?`,
  options: ["up, to the token of score C", "down, to the token of score 1", "to neither"],
  answer: () => (close(bent(loss), 0) ? 2 : bent(loss) > 0 ? 0 : 1),
  told: () =>
    `After 1000 steps it points ${Math.abs(bent(loss)).toFixed(1)}° ${bent(loss) > 0 ? "above" : "below"} the ray: ` +
    (bent(loss) > 0 ? "here a higher score pulls harder." : "an input that is right already pulls less."),
  show: () => scored(loss, 100),
});

const shared = (by) => ({
  ...preset("8"),
  keys: [
    preset("8").keys[0],
    [
      [-by, 1],
      [0, 0],
    ],
  ],
});
/** The largest shared direction without a second limit, from 2 down in steps of the slider. */
const single = once(() => {
  for (let k = 40; k >= 0; k--) if (!locals(shared(k / 20))) return k / 20;
  return NaN;
});
/** Where the start goes that Figure 8 shows on its way to the local limit, when no direction is shared. */
function rescued() {
  const from = solve(preset("8"));
  const { ends, choices } = solve(shared(0));
  const lost = from.ends.findIndex(({ place }) => place >= 0 && !from.choices[place].best);
  return ends[lost].place < 0 ? 2 : choices[ends[lost].place].best ? 1 : 0;
}

const otherFigures = {
  bend: bend("logistic", "with the logistic loss"),
  bend_correlation: bend("correlation", "with the correlation loss"),
  shared: {
    ask: "The shared direction of Figure 8 is 2. Lower it: at which value does the second limit vanish?",
    options: ["1.5", "1", "only at 0"],
    answer: () => [1.5, 1, 0].findIndex((value) => close(value, single())),
    told: () =>
      `At ${single()} the other token is on the margin of the local direction, and scores higher: it is a ` +
      `neighbour now.`,
    show: () => shared(single()),
    parts: { keys: (keys) => text(keys) === text(shared(-keys[1]?.[0][0]).keys) && !locals({ ...shared(0), keys }) },
  },
  rescued: {
    ask: "Make the better tokens orthogonal, with a shared direction of 0. Where does the start of the orange path go?",
    options: ["still to the local limit", "to the best tokens", "nowhere"],
    answer: rescued,
    told: () =>
      `${2 - strayed(shared(0))} of 2 starts now end at the best tokens: no input pulls ` + `against another.`,
    show: () => shared(0),
    parts: { keys: (keys) => text(keys) === text(shared(0).keys) },
  },
};

// ---- road -------------------------------------------------------------------------------------------

const { FIRST: ROAD } = roadFigure;
/** Logarithm of how many times the steps a rule needs for a tenth of 1 - cos. */
const dearer = (rule) => roadFigure.journey({ ...ROAD, wanted: -5 }).logs[rule] - roadFigure.journey(ROAD).logs[rule];
const tenfold = (rule, name) => ({
  ask: `From 1 − cos = 10⁻⁴ to 10⁻⁵: how many times the steps does ${name} need?`,
  options: ["about 3 times", "10 times", "more than 10¹⁰⁰ times"],
  answer: () => (dearer(rule) > 100 ? 2 : nearest([3, 10], 10 ** dearer(rule))),
  told: () => {
    const times =
      dearer(rule) > 6 ? `a number of ${Math.floor(dearer(rule)) + 1} digits` : (10 ** dearer(rule)).toFixed(1);
    return (
      `It is ${times}: the way along the road grows by √10, and ` +
      `${rule ? "each step covers as much as the last" : "the steps shrink"}.`
    );
  },
  show: () => ({ ...ROAD, wanted: -5 }),
});
const roads = {
  tenfold_gd: tenfold(0, "gradient descent"),
  tenfold_ngd: tenfold(1, "normalised descent"),
  first: {
    ask: "At a step size of 0.1 Polyak's step is the first to arrive. Which rule is at a step size of 1?",
    options: ["gradient descent", "normalised descent", "Polyak's step"],
    answer: () => {
      const { logs } = roadFigure.journey({ ...ROAD, size: 1 });
      return logs.indexOf(Math.min(...logs));
    },
    told: () =>
      `It takes ${Math.round(10 ** Math.min(...roadFigure.journey({ ...ROAD, size: 1 }).logs))} steps. ` +
      `Polyak's step has no size to choose.`,
    show: () => ({ ...ROAD, size: 1 }),
  },
};

// ---- dial and ball ----------------------------------------------------------------------------

const turned = (at, log) => dialFigure.turned({ third: at }, log);
const angle = (u, v) => degrees(engine.oneMinusCosine(u, v));
const dials = {
  half: {
    ask: "Let the head grow half as fast as the prompt. Where does the prompt turn?",
    options: ["to the max-margin direction", "between the two", "to the relaxed direction"],
    answer: () => {
      const { prompt, tight, relaxed } = turned([0.5, 1.5], -0.3);
      return angle(prompt, tight.theta) < 0.1 ? 0 : angle(prompt, relaxed.theta) < 0.1 ? 2 : 1;
    },
    told: () => {
      const { prompt, tight, relaxed } = turned([0.5, 1.5], -0.3);
      return (
        `It ends ${angle(prompt, tight.theta).toFixed(1)}° from the one and ` +
        `${angle(prompt, relaxed.theta).toFixed(1)}° from the other.`
      );
    },
    show: () => ({ third: [0.5, 1.5], ratio: -0.3 }),
  },
  higher: {
    ask:
      "Drag the third token up, from (0.5, 1.5) to (0.5, 2). Does the ratio c* at which the prompt stops " +
      "turning grow?",
    options: ["it grows", "it stays", "it falls"],
    answer: () => {
      const [from, to] = [1.5, 2].map((y) => turned([0.5, y], 0).threshold);
      return close(from, to) ? 1 : to > from ? 0 : 2;
    },
    told: () =>
      `At (0.5, 1.5) c* is ${turned([0.5, 1.5], 0).threshold.toFixed(2)}, at (0.5, 2) ` +
      `${turned([0.5, 2], 0).threshold.toFixed(2)}: the relaxed direction separates that token by more.`,
    show: () => ({ third: [0.5, 2], ratio: 0 }),
    parts: { third: ([x, y]) => y >= 1.9 && Math.abs(x - 0.5) < 0.1, ratio: () => true },
  },
};

const { rows: ROWS } = ballFigure.FIRST;
const touch = (norm) => engine.separator(ROWS, norm);
const smaller = (norm) => Math.min(...touch(norm).theta) / Math.max(...touch(norm).theta);
const corner = (norm) => touch(norm).margins.every((margin) => margin < 1 + 1e-6);
const grown = (norm, more) => ({ ...ballFigure.FIRST, norm, ...more });
const level = (norm, q) => engine.divergence(engine.separator(ROWS, q).theta, touch(norm).theta, norm);
const MEASURES = [1.75, 2, 3];
const balls = {
  flat: {
    ask: "Raise p to 10. How large is the smaller entry of the separator, beside the larger one?",
    options: ["nearly zero", "about half", "nearly as large"],
    answer: () => nearest([0.02, 0.5, 1], smaller(10)),
    told: () =>
      `At p = 10 it is ${smaller(10).toFixed(2)} of it: the ball of a large p is nearly a square, and its corner has ` +
      `equal entries.`,
    show: () => grown(10),
  },
  corner: {
    ask: "At p = 3 the ball touches one side of the wedge. Where does it touch at p = 1.05?",
    options: ["on the other side", "at the corner", "on the same side"],
    answer: () => (corner(1.05) ? 1 : touch(1.05).margins[0] < 1 + 1e-6 === touch(3).margins[0] < 1 + 1e-6 ? 2 : 0),
    told: () =>
      `Margins are ${touch(1.05)
        .margins.map((margin) => margin.toFixed(2))
        .join(" and ")}: in the plane a separator can hardly be sparse; with 16 entries it is, in the bars.`,
    show: () => grown(1.05),
  },
  own: {
    ask: "Train with p = 3. From which separator does the divergence fall to zero?",
    options: MEASURES.map((q) => `that of q = ${q}`),
    answer: () => MEASURES.findIndex((q) => close(level(3, q), 0)),
    told: () =>
      `From the others it levels off at ${MEASURES.filter((q) => level(3, q) > 1e-9)
        .map((q) => level(3, q).toFixed(4))
        .join(" and ")}.`,
    show: () => grown(3, { measure: true }),
    parts: { measure: (measure) => measure },
  },
  same: {
    ask: "Train with p = 2. Does the divergence from the separator of q = 1.75 level off above zero?",
    options: ["yes", "no, for these rows"],
    answer: () => (close(level(2, 1.75), 0) ? 1 : 0),
    told: () =>
      close(level(2, 1.75), 0)
        ? "Both balls touch the wedge at its corner, so both norms have one separator."
        : "The two balls touch the wedge at two points.",
    show: () => grown(2, { measure: true }),
    parts: { measure: (measure) => measure },
  },
};

const lowest = (norm) => {
  const state = grown(norm, { path: true });
  return ballFigure.lowest(state, ballFigure.grow(state)).angles;
};
const LONG = [20, 30]; // places of the lengths 10 and 100 on the path
const paths = {
  closer: {
    ask:
      "Set p = 2. The path of lowest risk is ten times as long as the separator, then a hundred. How does its " +
      "angle fall?",
    options: ["about tenfold", "about a hundredfold", "it does not"],
    answer: () =>
      nearest(
        [10, 100, 1],
        LONG.map((k) => lowest(2)[k]).reduce((a, b) => a / b),
      ),
    told: () =>
      `From ${LONG.map((k) => `${lowest(2)[k].toPrecision(2)}°`).join(" to ")}: the path runs beside its ray, ` +
      "so the angle falls like one over the length.",
    show: () => grown(2, { path: true }),
    parts: { path: (path) => path },
  },
  moved: {
    ask: "Raise p from 3 to 10. Does the path of lowest risk follow the separator of its norm?",
    options: ["yes, it turns with it", "no, it stays"],
    answer: () => (lowest(10).at(-1) < angle(touch(3).theta, touch(10).theta) / 10 ? 0 : 1),
    told: () =>
      `The separators are ${angle(touch(3).theta, touch(10).theta).toFixed(1)}° apart; ` +
      `the path of p = 10 ends ${Math.max(lowest(10).at(-1), 0.01).toFixed(2)}° from its own, or less.`,
    show: () => grown(10, { path: true }),
    parts: { path: (path) => path },
  },
};

const { FIRST: CONE, walk } = coneFigure;
/** The lowest score of token B at which the path no longer settles, in steps of the slider. */
const leaving = once(() => {
  for (let k = 4; k <= 30; k++) if (!walk({ ...CONE, score: k / 20 }).settled) return k / 20;
  return NaN;
});
const cones = {
  higher_neighbour: {
    ask: "Token A scores 0.5. Raise the score of its neighbour B from 0.2: when does the path no longer settle on q?",
    options: ["at 0.3", "at A's score, 0.5", "at 1"],
    answer: () => nearest([0.3, 0.5, 1], leaving()),
    told: () => `At ${leaving()} it no longer settles.`,
    show: () => ({ ...CONE, score: leaving() }),
    parts: { score: (score) => score >= leaving() },
  },
};

const all = { ...figure1, ...otherFigures, ...roads, ...dials, ...balls, ...paths, ...cones };
export const QUESTIONS = Object.fromEntries(Object.entries(all).map(([name, one]) => [name, asked(one)]));
const ASKED = {
  playground: { "": "score count", 5: "bend bend_correlation", 8: "shared rescued" },
  road: "tenfold_gd tenfold_ngd",
  dial: "half higher",
  ball: { "": "flat corner", path: "closer moved" },
  cone: "higher_neighbour",
};

/** The questions of a figure: those named, or those of its kind and preset. */
export function questionsOf(figure, name, named) {
  const all = ASKED[figure] ?? "";
  const ids = named ?? (typeof all === "string" ? all : (all[name] ?? all[""] ?? ""));
  return ids
    .split(" ")
    .filter(Boolean)
    .map((id) => QUESTIONS[id]);
}
