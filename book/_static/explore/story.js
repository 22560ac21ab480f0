// One scene for one story: the plane of keys stays in view, and each step of the page changes what it shows.
import { circle, plane, square, star } from "./plane.js";
import { degrees, rim } from "./ball.js";
import { power } from "./road.js";
import { shownAt, slid } from "./playground.js";
import { LOOKS } from "./looks.js";
import { bars, button, clamp, counts, degreesOf, give, HAIR, make, percent, play, plural, rounded, small, still, write } from "./view.js";
import * as engine from "./engine.js";
import { SCENE } from "./scene.js";

const { keys: KEYS, scores: SCORES, starts: STARTS, published: PUBLISHED, steps: LAST } = SCENE;
const { near: NEAR, middle: MIDDLE } = SCENE;
const RAISED = KEYS.with(0, SCENE.raised);
const BESIDE = KEYS.with(0, SCENE.beside);
const NAMES = SCENE.words ?? ["A", "B", "C"];
const BEST = Object.fromEntries(NAMES.map((name, best) => [name, NAMES.map((_, t) => (t === best ? 1 : 0.5))]));
const NORMALISED = { kind: "normalised", size: SCENE.step_size };
/** What has no colour of its own in the book, and may not look like a token here. */
const OWN = { ball: "i1", mean: "c3", rough: "c3", GD: "i0", NGD: LOOKS.NGD, Polyak: "i2" };
const OPTIMISERS = {
  gradient: "the shortest shaded query",
  signs: "the shaded query whose largest entry is smallest",
  products: "the shaded query with the smallest sum of sizes",
};

const nearly = (x) => percent(Math.min(x, 0.999)); // attention, of which no word ever has all
const problemOf = ({ keys, scores }) => ({ keys: [keys], scores: [scores] });
const bestOf = ({ scores }) => scores.indexOf(Math.max(...scores));
const rowsOf = (state) => engine.differenceRows(problemOf(state), [bestOf(state)]);
const shares = (state, p) => engine.attention(problemOf(state), p)[0];
const descent = (state, start, rule = NORMALISED, norm = 2) =>
  engine.descend(problemOf(state), "logistic", start, rule, LAST, norm);

/** How far a query is from a direction, in words. */
const away = (at, theta) => (engine.length(at) ? `${degreesOf(degrees(at, theta))} from` : "not yet on the way to");
const FAR = 50; // steps from which the road of the next function is a road
/**
 * Decimal logarithm of the plain steps of length 1 that a query of this length needs. Far out it is
 * r theta + offset, with r = log t + along (limitOffset), and normalised descent is on the same road.
 */
export function plainSteps(state, long) {
  const problem = problemOf(state),
    solution = engine.separator(rowsOf(state)),
    { across, along } = engine.limitOffset(problem, "logistic", [bestOf(state)], solution);
  return (Math.sqrt(long ** 2 - engine.dot(across, across)) / engine.length(solution.theta) - along) * Math.LOG10E;
}

// ---- runs that only this page has -------------------------------------------------------------------

/** A run of the optimiser: of the query itself, or of two factors whose products are its entries. */
export function trained(state, rule) {
  if (rule === "gradient") return descent(state, [0, 0]);
  const factors = [
    [0.1, 0.1],
    [0.1, 0.1],
  ];
  let p = rule === "signs" ? [0, 0] : factors[0].map((x, j) => x * factors[1][j]);
  const path = [...p];
  for (let k = 0; k < LAST; k++) {
    const { direction } = engine.gradient(problemOf(state), "logistic", p);
    if (rule === "signs") p = p.map((x, j) => x - 0.1 * Math.sign(direction[j]));
    else {
      const pull = factors.map((_, side) => direction.map((g, j) => g * factors[1 - side][j])),
        size = Math.hypot(...pull.flat());
      pull.forEach((one, side) => one.forEach((g, j) => (factors[side][j] -= (0.02 * g) / size)));
      p = factors[0].map((x, j) => x * factors[1][j]);
    }
    path.push(...p);
  }
  return path;
}

/** The shortest p beyond all margins, in the norm of the optimiser: a corner, or a point on an axis or a diagonal. */
export function shortest(rows, rule) {
  if (rule === "gradient") return engine.separator(rows).theta;
  const size = rule === "signs" ? (p) => Math.max(...p.map(Math.abs)) : (p) => Math.abs(p[0]) + Math.abs(p[1]);
  const lines = rule === "signs" ? [[1, 1], [1, -1]] : [[1, 0], [0, 1]]; // prettier-ignore
  const meet = ([a, b], right, [c, d], other) => {
    const area = a * d - b * c;
    return area && [(right * d - b * other) / area, (a * other - right * c) / area];
  };
  const found = rows
    .flatMap((row, k) => [
      ...lines.map((line) => meet(row, 1, line, 0)),
      ...rows.slice(0, k).map((other) => meet(row, 1, other, 1)),
    ])
    .filter((p) => p && rows.every((row) => engine.dot(row, p) > 1 - 1e-9));
  return found.sort((a, b) => size(a) - size(b))[0];
}

// ---- the steps --------------------------------------------------------------------------------------

/** Draw the three tokens; those that may be dragged are handles. */
function tokens(scene, state, { drag = [], right = false, scored = true } = {}) {
  state.keys.forEach((at, t) => {
    const best = t === bestOf(state),
      look = best ? LOOKS.global : t === 1 ? LOOKS.local : "none";
    if (drag.includes(t))
      scene.handle(`key ${t}`, at, {
        name: `key of token ${NAMES[t]}`,
        look: `token explore-pointed ${look}`,
        draw: best ? star(8.6) : square(8),
        move: (to) => ({ keys: state.keys.with(t, to) }),
      });
    else scene.view.mark(`token ${t}`, at, best ? star(8.6) : square(8), `dot ${look}`);
    const score = `${scene.view.width < 400 ? ":" : ", score"} ${state.scores[t]}`,
      name = NAMES[t] + (scored ? score : ""),
      away = drag.includes(t) ? 25 : 13,
      beside = t === 1 || right || (t === 2 && !drag.length), // on the right
      [dx, dy] = [beside ? away : -away - 7.2 * name.length, [4, -8, 18][right && t === 0 ? 2 : t]];
    scene.view.beside(`name ${t}`, at, dx, dy, name, look === "none" ? "" : look);
  });
}
/** The tokens where they are too near to each other to be named. */
const specks = (view, { keys }) => keys.forEach((at, t) => view.dot(`speck ${t}`, at, 2.5, "none"));
/** The run to this step once more, all of it, and the ray that it joins. */
function afar({ far }, state, theta, path) {
  if (!far.width) return;
  let joined = 0; // the step at which the eye sees it on the ray
  while (joined < until(state) && !(theta && joined && degrees(engine.at(path, joined), theta) < 1)) joined++;
  const end = engine.at(path, joined);
  far.look(NEAR.map((border, k) => (k % 2 ? Math.max : Math.min)(border, 1.1 * end[k >> 1])));
  specks(far, state);
  if (theta) far.ray("ray", theta, `dashed ${LOOKS.global}`, "");
  far.trail("path", path, `path ${LOOKS.path}`, until(state));
  far.dot("end", engine.at(path, until(state)), 4, LOOKS.path);
  far.legend(Math.max(far.width - 108, 5), 14, [["seen from afar", ""]]); // which the run may cross
  far.tidy();
}
const attend = (scene, state, words, rows, look = () => LOOKS.path) => scene.bars(words, rows, look, bestOf(state));
const until = (state) => state.shown;
const pathTo = (scene, key, path, state, look) => {
  scene.view.trail(key, path, `path ${look}`, until(state));
  scene.view.dot(`${key} end`, engine.at(path, until(state)), 5, look);
  return engine.at(path, until(state));
};
function wedge(scene, rows) {
  const corners = scene.view.beyond(rows);
  if (corners.length) scene.view.area("back", "wedge", corners, "area none");
  rows.forEach((row, k) => scene.view.across(`margin ${k}`, row, 1, "thin none"));
}
const entries = (scene, p) =>
  scene.counts(
    ["across", "up"].map((word, k) => [
      `query, ${word}`,
      LOOKS.optimal,
      p[k] / Math.max(...p.map(Math.abs)),
      p[k].toFixed(2).replace("-", "−"),
    ]),
    0.5,
  );

/** A share as so many filled squares of a hundred, the k-th of four such fields, two above two, below a text. */
function hundred(view, k, share, look, text) {
  const step = Math.min(view.width / 26, (view.height - 60) / 23),
    left = ((k % 2) + 0.5) * (view.width / 2) - 5 * step,
    top = ((k >> 1) + 0.5) * (view.height / 2) - 5 * step + 8;
  const squares = (from, to) =>
    Array.from({ length: to - from }, (_, n) => {
      const [x, y] = [left + ((from + n) % 10) * step, top + Math.floor((from + n) / 10) * step];
      return `M${x.toFixed(1)} ${y.toFixed(1)}h${0.7 * step}v${0.7 * step}h${-0.7 * step}z`;
    }).join("");
  const filled = Math.round(100 * share) || 0;
  view.put("front", `filled ${k}`, "path", { d: squares(0, filled) || "M0 0", class: `dot ${look}` });
  view.put("front", `empty ${k}`, "path", { d: squares(filled, 100) || "M0 0", class: "thin none" });
  if (text) view.label(`share ${k}`, Math.max(left + 5 * step - 3.4 * text.length, 2), top - 8, text, look);
}

const TIME = { time: "Steps" };
export const STEPS = {
  averages: {
    real: "before",
    window: MIDDLE,
    first: { query: [-0.4, -0.3] },
    controls: { press: { "Set the query to zero": { query: [0, 0] } } },
    draw(scene, state) {
      const weights = shares(state, state.query),
        mean = [0, 1].map((c) => weights.reduce((sum, a, t) => sum + a * state.keys[t][c], 0));
      scene.view.area("back", "triangle", state.keys, "area none");
      tokens(scene, state, { scored: false });
      scene.view.segment("query", [0, 0], state.query, `path ${LOOKS.path}`);
      scene.view.mark("mean", mean, "m-6 -6l12 12m0 -12l-12 12", `path ${OWN.mean}`);
      scene.view.beside("mean name", mean, 9, -7, "what it reads", OWN.mean);
      scene.handle("tip", state.query, {
        name: "the query",
        look: "start explore-pointed",
        draw: circle(6),
        move: (query) => ({ query }),
      });
      attend(scene, state, "Attention in the plane", [weights]);
      const most = Math.max(...weights),
        name = NAMES[weights.indexOf(most)];
      return most < 0.9
        ? `The largest share is ${percent(most)}: attention reads a mixture of the words.`
        : `“${name}” has ${nearly(most)} of the attention: the head reads little else.`;
    },
  },
  sharpens: {
    real: "after",
    window: MIDDLE,
    plays: true,
    controls: TIME,
    draw(scene, state) {
      tokens(scene, state);
      const at = pathTo(scene, "path", scene.kept("path", [], () => descent(state, [0, 0])), state, LOOKS.path),
        weights = shares(state, at);
      attend(scene, state, "Attention in the plane", [weights]);
      return `After ${plural(state.shown, "step")} “${NAMES[0]}” has ${nearly(weights[0])} of the attention.`;
    },
  },
  picks: {
    real: "alone",
    window: MIDDLE,
    first: { shown: LAST, best: NAMES[0] },
    controls: { options: ["best", "Best score", NAMES] },
    draw(scene, given) {
      const state = { ...given, scores: BEST[given.best] };
      tokens(scene, state);
      const path = scene.kept("pick", state.best, () => descent(state, [0, 0])),
        weights = shares(state, pathTo(scene, "path", path, state, LOOKS.path));
      attend(scene, state, "Attention in the plane", [weights]);
      const rest = weights.reduce((sum, a, t) => (t === bestOf(state) ? sum : sum + a), 0);
      const kept = rest < 1e-4 ? "practically none" : percent(rest);
      return `“${state.best}” scores best. The other two words keep ${kept} of the attention.`;
    },
  },
  direction: {
    window: NEAR,
    far: true,
    plays: true,
    first: { keys: BESIDE },
    controls: TIME,
    draw(scene, state) {
      const rows = rowsOf(state),
        { feasible, theta } = scene.kept("wedge", rows, () => engine.separator(rows));
      if (feasible) {
        wedge(scene, rows);
        scene.view.ray("ray", theta, `dashed ${LOOKS.global}`, "max-margin");
        scene.view.dot("touch", theta, 6, LOOKS.optimal);
        scene.view.beside("touch name", theta, 14, 18, "shortest", LOOKS.optimal);
      }
      const path = scene.kept("turned", state.keys, () => descent(state, [0, 0])),
        at = pathTo(scene, "path", path, state, LOOKS.path);
      tokens(scene, state, { drag: [0, 1] });
      afar(scene, state, feasible && theta, path);
      attend(scene, state, "Attention in the plane", [shares(state, at)]);
      return feasible
        ? `After ${plural(state.shown, "step")}: ${away(at, theta)} max-margin.`
        : `No direction puts “${NAMES[0]}” ahead of both others ${HAIR}.`;
    },
  },
  starts: {
    window: MIDDLE,
    plays: true,
    // for a finger, to which starts that lie close together are one
    controls: { ...TIME, press: { "Next start": ({ armed }) => ({ armed: (armed + 1) % STARTS.length }) } },
    draw(scene, state) {
      const problem = problemOf(state),
        choices = engine.locallyOptimal(problem),
        look = (place) => (place < 0 ? "none" : choices[place].best ? LOOKS.global : LOOKS.local);
      choices.forEach(({ separator, best }, k) =>
        scene.view.ray(`ray ${k}`, separator.theta, `dashed ${look(k)}`, `limit ${NAMES[best ? 0 : 1]}`),
      );
      const runs = state.starts.map((start, k) => scene.kept(`run ${k}`, start, () => descent(state, start))),
        places = runs.map((path) => engine.outcome(problem, "logistic", NORMALISED, engine.endOf(path), choices).place);
      runs.forEach((path, k) => pathTo(scene, `path ${k}`, path, state, look(places[k])));
      tokens(scene, state, { right: true });
      state.starts.forEach((at, k) =>
        scene.handle(`start ${k}`, at, {
          name: `start ${k + 1}`,
          look: `start${k === state.armed ? " chosen" : ""}`,
          draw: circle(6),
          armed: k === state.armed,
          move: (to) => ({ starts: state.starts.with(k, to) }),
        }),
      );
      const best = places.filter((place) => place >= 0 && choices[place].best).length,
        open = places.filter((place) => place < 0).length,
        ends = [best, places.length - best - open];
      scene.counts(
        ends.map((n, k) => [`to ${NAMES[k]}`, k ? LOOKS.local : LOOKS.global, n / places.length, `${n} of 6 starts`]),
      );
      return (
        `From ${ends[0]} of 6 starts “${NAMES[0]}”, the best word, wins, and from ${ends[1]} “${NAMES[1]}”.` +
        (open ? ` Undecided after ${LAST} steps: ${open}.` : "")
      );
    },
  },
  speed: {
    window: [-14, 18, -3, 21],
    first: { shown: LAST },
    controls: TIME,
    draw(scene, state) {
      const { theta } = scene.kept("wedge", rowsOf(state), () => engine.separator(rowsOf(state))),
        runs = scene.kept("roads", [], () => ({
          Polyak: engine.polyak(problemOf(state), LAST),
          NGD: descent(state, [0, 0]),
          GD: descent(state, [0, 0], { kind: "constant", size: 1 }),
        }));
      const ends = Object.entries(runs).map(([name, path]) => [name, engine.length(engine.at(path, until(state)))]),
        longest = Math.max(...ends.map(([, length]) => length), 20);
      scene.view.look(STEPS.speed.window.map((x) => (x * longest) / 20)); // in which all three are seen
      scene.view.axes();
      scene.view.ray("ray", theta, "dashed", "max-margin");
      specks(scene.view, state);
      scene.counts(
        ends.map(([name, length], k) => {
          const at = pathTo(scene, name, runs[name], state, `${OWN[name]} w${k}`),
            words = { GD: "gradient descent", NGD: "normalised", Polyak: "Polyak" }[name];
          scene.view.beside(`${name} name`, at, 12, 4, words, OWN[name]);
          const off = degreesOf(degrees(at, theta)).replace("less than ", "<");
          return [words, OWN[name], length / longest, length ? `${small(length)} long, ${off}\u00a0off` : "at the origin"];
        }),
      );
      const log = plainSteps(state, ends[1][1]);
      return state.shown < FAR
        ? "All three have just set out."
        : `For a query as long as the normalised one, gradient descent needs some ${power(Math.round(log))} steps.`;
    },
  },
  norm: {
    window: NEAR,
    far: true,
    first: { keys: RAISED, shown: LAST, norm: 3 },
    controls: { norm: "p of the norm" },
    draw(scene, state) {
      const rows = rowsOf(state),
        { theta } = scene.kept("ball", state.norm, () => engine.separator(rows, state.norm)),
        edge = rim(state.norm, engine.length(theta, state.norm));
      wedge(scene, rows);
      scene.view.area("back", "ball", edge, `area rim ${OWN.ball}`);
      scene.view.ray("ray", theta, `dashed ${LOOKS.global}`, `p = ${state.norm}`);
      const path = scene.kept("mirror", state.norm, () => descent(state, [0, 0], NORMALISED, state.norm)),
        at = pathTo(scene, "path", path, state, LOOKS.path);
      tokens(scene, state);
      afar(scene, state, theta, path);
      scene.view.dot("touch", theta, 6, LOOKS.optimal);
      entries(scene, theta);
      return `The ball of p = ${state.norm} touches at the dot. After ${LAST} steps: ${away(at, theta)} the dashed ray.`;
    },
  },
  optimiser: {
    window: [-2.2, 3.8, -1.2, 3.1],
    far: true,
    first: { keys: RAISED, shown: LAST, rule: "signs" },
    controls: { options: ["rule", "Train by", Object.keys(OPTIMISERS)] },
    draw(scene, state) {
      const { rule } = state,
        rows = rowsOf(state),
        theta = shortest(rows, rule),
        size = rule === "signs" ? Math.max(...theta.map(Math.abs)) : Math.abs(theta[0]) + Math.abs(theta[1]);
      const around = (x, y) => [[x, y], [-y, x], [-x, -y], [y, -x]], // prettier-ignore
        square = around(size, rule === "signs" ? size : 0),
        edge = rule === "gradient" ? rim(2, engine.length(theta)) : [...square, square[0]];
      wedge(scene, rows);
      scene.view.area("back", "ball", edge, `area rim ${OWN.ball}`);
      scene.view.ray("ray", theta, `dashed ${LOOKS.global}`, "its limit");
      const path = scene.kept("trained", rule, () => trained(state, rule)),
        at = pathTo(scene, "path", path, state, LOOKS.path);
      tokens(scene, state);
      afar(scene, state, theta, path);
      scene.view.dot("touch", theta, 6, LOOKS.optimal);
      entries(scene, theta);
      return `Limit: ${OPTIMISERS[rule]}. After ${LAST} steps: ${away(at, theta)} it.`;
    },
  },
  rounding: {
    window: [-13, 27, -4, 23],
    first: { shown: LAST },
    controls: TIME,
    draw(scene, state) {
      const start = PUBLISHED,
        rough = scene.kept("rough", [], () =>
          engine.descendTextbook(problemOf(state), "logistic", start, 0.1, LAST, 1e-9, Math.fround).path,
        ),
        exact = scene.kept("exact", [], () => descent(state, start));
      for (const [k, choice] of scene.kept("limits", [], () => engine.locallyOptimal(problemOf(state))).entries())
        scene.view.ray(`ray ${k}`, choice.separator.theta, "dashed", `limit ${NAMES[choice.selected[0]]}`, true);
      const ends = [
        pathTo(scene, "exact", exact, state, `${LOOKS.path} w0`),
        pathTo(scene, "rough", rough, state, OWN.rough),
      ];
      specks(scene.view, state);
      scene.view.dot("start", start, 4, "");
      scene.view.beside("start name", start, 8, 14, "start", "");
      ["exact", "32 bits"].forEach((name, k) =>
        scene.view.beside(`${name} name`, ends[k], -20, k ? -10 : 32, name, k ? OWN.rough : LOOKS.path),
      );
      const weights = ends.map((at) => shares(state, at));
      attend(scene, state, "Exact and in 32 bits", weights, (i) => (i ? OWN.rough : LOOKS.path));
      const chosen = weights.map((row) => NAMES[row.indexOf(Math.max(...row))]);
      return chosen[0] === chosen[1]
        ? `After ${plural(state.shown, "step")} both runs select “${chosen[0]}”.`
        : `After ${state.shown} steps the exact run selects “${chosen[0]}”, the one in 32 bits “${chosen[1]}”.`;
    },
  },
  networks: {
    window: MIDDLE,
    bare: true,
    first: { guess: "" },
    controls: { options: ["guess", "Your guess", ["most", "about half", "few"]] },
    draw({ view, data, counts }, state) {
      const rows = [
        ["[CLS] or [SEP]", LOOKS.global, data.parked],
        ["layer: keeps choices", LOOKS.path, data.kept],
        ["layer: ends best", "c3", data.best],
        ["above 0.9", "i1", state.guess ? data.firm : NaN],
      ];
      const shown = (share) => (share >= 0 ? percent(share) : "?"),
        wide = view.width > 400; // where the squares have room for their names
      rows.forEach(([name, look, share], k) => hundred(view, k, Number(share), look, wide ? `${name}, ${shown(share)}` : ""));
      if (!wide) counts(rows.map(([name, look, share]) => [name, look, Number(share) || 0, shown(share)]));
      if (!state.guess) return "A filled square is one case in a hundred.";
      const few = data.firm < 0.4 ? "few" : data.firm < 0.6 ? "about half" : "most";
      return `${state.guess === few ? "Right." : "No."} ${percent(data.firm)} of the choices are above 0.9.`;
    },
  },
};
const FIRST = {
  ...{ keys: KEYS, scores: SCORES, starts: STARTS, query: SCENE.query, shown: 0 },
  ...{ best: NAMES[0], norm: 3, rule: "gradient", guess: "", armed: -1 },
};

const TIMES = { before: "before training", after: "after training", alone: "trained alone" };
/** The words of the real review, and what a head of the film reader attends to at each time: cells as dark as that. */
function sentence({ words, ...shares }) {
  const rows = Object.entries(TIMES).map(([time, name]) => {
    const most = Math.max(...shares[time]),
      cells = shares[time].map((share) =>
        make("td", { style: `--share:${share}`, class: share === most && "most" }, percent(share)),
      );
    return make("tr", { "data-time": time }, make("th", { scope: "row" }, name), ...cells);
  });
  const head = make("tr", {}, make("td", {}, "film reader’s head"), ...words.map((w) => make("th", { scope: "col" }, w)));
  return make("table", { class: "story-words", "aria-label": "Attention of the film reader on a real review" }, make("thead", {}, head), make("tbody", {}, ...rows)); // prettier-ignore
}

// ---- the page ---------------------------------------------------------------------------------------

/** The sections of the page that are steps, by the name in their address: story-averages and so on. */
const sectionsOf = (root) =>
  Object.keys(STEPS).flatMap((name) => {
    const place = root.ownerDocument.getElementById(`story-${name}`);
    return place ? [[name, place.closest("section") ?? place]] : [];
  });

export function story(root) {
  const sections = sectionsOf(root),
    names = sections.map(([name]) => name);
  const stage = make("div", { class: "explore-stage" }),
    corner = make("div", { class: "story-far" }),
    panel = make("div", { class: "story-panel" }),
    review = sentence(JSON.parse(root.dataset.review)),
    controls = make("div", { class: "explore-controls" });
  const said = make("p", { class: "explore-said" }),
    live = make("p", { class: "explore-live", role: "status", "aria-live": "polite" }),
    count = make("span", { class: "story-count" });
  const [back, next] = [button("‹ Back", () => go(-1)), button("Next ›", () => go(1))];
  const foot = make("div", { class: "explore-row story-foot" }, back, count, next);
  const parts = [stage, corner, panel, review, controls, said, live, foot];
  root.append(make("section", { class: "explore-box", "aria-label": "The scene" }, ...parts));
  document.documentElement.classList.add("story-on");

  let name = names[0],
    state = { ...FIRST, ...STEPS[name].first },
    looked = STEPS[name].window,
    asked = 0,
    speaking = 0,
    stop = () => {};
  const memory = new Map(),
    syncs = [];
  const ask = () => (asked ||= requestAnimationFrame(draw)),
    ui = { ask, now: draw, moving: () => false };
  const view = plane(stage, { name: "The plane of keys and the query", tall: () => stage.clientHeight, ui }),
    far = plane(corner, { name: "The run, seen from afar", tall: () => corner.clientHeight, ui });
  /** The place under the plane, for bars that stand or lie. */
  const room = (look) => {
    if (panel.firstChild?.className !== look) panel.replaceChildren(make("div", { class: look }));
    return panel.firstChild;
  };
  const scene = {
    view,
    far,
    data: root.dataset,
    /** What was computed of this last, as long as what it depends on stays. */
    kept(key, given, compute) {
      const text = JSON.stringify(given);
      if (memory.get(key)?.text !== text) memory.set(key, { text, value: compute() });
      return memory.get(key).value;
    },
    handle: (key, at, { move, ...more }) =>
      view.handle(key, at, { value: `at ${at}`, done: ask, move: (to) => change(move(to)), ...more }),
    bars: (words, rows, look, best) => bars(room("explore-bars"), words, rows, look, (_, t) => t === best, NAMES),
    counts: (rows, zero) => counts(room("explore-count"), rows, zero),
  };

  function draw() {
    cancelAnimationFrame(asked);
    asked = 0;
    for (const sync of syncs) sync();
    corner.hidden = !STEPS[name].far;
    if (!view.width) return;
    view.look(looked);
    if (!STEPS[name].bare) view.axes();
    const text = STEPS[name].draw(scene, state);
    view.tidy();
    write(said, text);
    clearTimeout(speaking);
    speaking = setTimeout(() => write(live, text), 700);
  }
  function change(by) {
    stop();
    looked = STEPS[name].window;
    state = { ...state, ...by };
    ask();
  }
  /** Move the window from another one in so many milliseconds, and then let time run where that is wanted. */
  function run(from, move, plays) {
    const to = STEPS[name].window;
    let passed = 0;
    stop = play((more) => {
      passed += more;
      const moved = move ? Math.min(passed / move, 1) : 1,
        part = clamp((passed - move) / 3000, 0, 1);
      looked = from.map((x, k) => x + (to[k] - x) * moved * (2 - moved));
      if (plays) state = { ...state, shown: shownAt(NORMALISED, 100 * part) };
      ask();
      return moved === 1 && (part === 1 || !plays);
    });
  }
  /** Choose, and see what follows from the start. */
  function choose(by) {
    change(by);
    if (!still()) run(looked, 0, true);
  }

  /** Show a step: move the window there, and let time run where the step is about time. */
  function show(to) {
    const from = looked,
      step = STEPS[to];
    stop();
    name = to;
    panel.replaceChildren();
    state = { ...FIRST, ...(step.plays && { shown: still() ? LAST : 0 }), ...step.first };
    root.dataset.step = to;
    sections.forEach(([each, section]) => section.classList.toggle("story-now", each === to));
    review.hidden = !step.real;
    for (const row of review.tBodies[0].rows) row.classList.toggle("now", step.real === row.dataset.time);
    looked = still() ? step.window : from;
    if (!still()) run(from, 600, step.plays);
    const place = names.indexOf(to);
    back.disabled = place === 0;
    next.disabled = place === names.length - 1;
    write(count, `${place + 1} of ${names.length}`);
    ask();
  }

  /** Show the step that is being read, the last whose heading is above a line, below a scene that lies above the steps. */
  function read() {
    const over = getComputedStyle(root).float === "none" ? Math.max(root.getBoundingClientRect().bottom, 0) : 0,
      line = over + 0.65 * (innerHeight - over),
      passed = sections.filter(([, section]) => section.getBoundingClientRect().top < line).at(-1),
      to = passed ? passed[0] : names[0];
    if (to !== name) show(to);
  }
  function go(by) {
    const [to, section] = sections[clamp(names.indexOf(name) + by, 0, names.length - 1)];
    section.scrollIntoView({ behavior: still() ? "auto" : "smooth" });
    if (still()) show(to);
  }

  // ---- one control a step
  for (const each of names) {
    const { time, norm, options: given, press } = STEPS[each].controls,
      row = make("div", { class: "explore-row" });
    const steps = { get: () => slid({ step: "normalised", shown: state.shown }), told: () => String(state.shown) },
      norms = { get: () => Math.log(state.norm - 1), told: () => String(state.norm) };
    if (time) range(row, time, [0, 100, 1], { ...steps, put: (x) => ({ shown: shownAt(NORMALISED, x) }) });
    if (norm) range(row, norm, [-3, 1.1, 0.05], { ...norms, put: (x) => ({ norm: rounded(1 + Math.exp(x)) }) });
    if (given) {
      const [key, words, options] = given,
        made = options.map((option) => button(option, () => choose({ [key]: option })));
      row.append(make("span", {}, words), ...made);
      syncs.push(() => made.forEach((one, k) => give(one, "aria-pressed", String(state[key] === options[k]))));
    }
    for (const [words, by] of Object.entries(press ?? {}))
      row.append(button(words, () => change(typeof by === "function" ? by(state) : by)));
    controls.append(row);
    syncs.push(() => (row.hidden = each !== name));
  }
  function range(row, words, [min, max, step], { get, put, told }) {
    const oninput = () => change(put(Number(input.value))),
      input = make("input", { type: "range", min, max, step, oninput }),
      output = make("output");
    row.append(make("label", {}, make("span", {}, words), input, output));
    syncs.push(() => {
      if (input.value !== String(get())) input.value = get();
      write(output, told());
      give(input, "aria-valuetext", told());
    });
  }

  addEventListener("scroll", read, { passive: true });
  addEventListener("resize", read);
  show(name);
  read();
}
