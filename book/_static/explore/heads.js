// Heads of MiniLM on film reviews: what each token selects, and which choices turn when keys and queries are rounded.
import { frame } from "./frame.js";
import { softmax } from "./engine.js";
import { give, make, needed, plural } from "./view.js";

const [LAYERS, HEADS, SIZE] = [6, 12, 32]; // columns of a head
const [FEWEST, MOST] = [2, 8]; // bits
const [TOP, LINE] = [27, 16]; // pixels, of which a row of words has so many
const NODES = Array.from({ length: 31 }, (_, k) => 0.4 * k - 6); // of heads.bits.flip_probability
const WEIGHTS = NODES.map((x) => Math.exp(-x * x / 2));
const TOTAL = WEIGHTS.reduce((a, b) => a + b);
const ERFC = [0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807];
ERFC.push(-0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223);
const HERE = globalThis.document?.currentScript?.src; // the numbers lie beside the script

// ---- the arithmetic -----------------------------------------------------------------------------

const half = (bits) => {
  const exponent = (bits >> 10) & 31,
    part = bits & 1023,
    size = exponent ? 2 ** (exponent - 25) * (1024 + part) : 2 ** -24 * part;
  return bits >> 15 ? -size : size;
};

/** Numbers in float16, as base64. */
export function decoded(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return Float64Array.from(new Uint16Array(bytes.buffer), half);
}

/** Queries and keys of a head on a review of so many tokens, a row of 32 for each. */
export function headOf(numbers, count, layer, head) {
  const rows = (side) => {
    const from = ((side * LAYERS + layer) * HEADS + head) * count * SIZE;
    return Array.from({ length: count }, (_, t) => numbers.subarray(from + t * SIZE, from + (t + 1) * SIZE));
  };
  return { queries: rows(0), keys: rows(1) };
}

const product = (a, b) => a.reduce((sum, x, k) => sum + x * b[k], 0);
const logits = ({ queries, keys }) => queries.map((q) => keys.map((key) => product(q, key) / Math.sqrt(SIZE)));
export const selects = (head) => logits(head).map((row) => row.indexOf(Math.max(...row)));

/** Attention of each query token on each token. */
export const attention = (head) => logits(head).map(softmax);

/** Distance between neighbouring values of each column: the largest one is that of its largest entry. */
const steps = (rows, bits) =>
  Array.from({ length: SIZE }, (_, k) => Math.max(...rows.map((row) => Math.abs(row[k]))) / (2 ** (bits - 1) - 1));

/** To the nearest whole number, of two that are as near the even one. */
const whole = (x) => (x - Math.floor(x) === 0.5 ? 2 * Math.round(x / 2) : Math.round(x));

/** The head with keys and queries at the nearest of the values that so many bits have. */
export function roundedHead({ queries, keys }, bits) {
  const of = (rows) => {
    const size = steps(rows, bits);
    return rows.map((row) => row.map((x, k) => (size[k] ? whole(x / size[k]) * size[k] : x)));
  };
  return { queries: of(queries), keys: of(keys) };
}

/** Probability that a normal number is below x, to 1e-7 (erfc of Numerical Recipes, section 6.2). */
function below(x) {
  const z = Math.abs(x) / Math.SQRT2,
    t = 1 / (1 + z / 2);
  const tail = (t * Math.exp(ERFC.reduce((sum, c) => sum * t + c) - z * z)) / 2;
  return x > 0 ? 1 - tail : tail;
}

/**
 * Probability that each choice turns: heads.bits.forecast, where tokens are unit vectors and a head's matrices have
 * the keys and queries as columns, so that each entry of each of them has rounding noise of its own.
 */
export function forecast(head, bits) {
  const [r, s] = [head.queries, head.keys].map((rows) => steps(rows, bits).map((size) => size ** 2 / 12)),
    both = 2 * product(r, s);
  return logits(head).map((row, i) => {
    const a = row.indexOf(Math.max(...row)),
      own = both + 2 * head.queries[i].reduce((sum, q, k) => sum + s[k] * q * q, 0);
    const leads = row.map((z, t) => {
      const gaps = head.keys[a].reduce((sum, x, k) => sum + r[k] * (x - head.keys[t][k]) ** 2, 0);
      return t === a ? Infinity : ((row[a] - z) * Math.sqrt(SIZE)) / Math.sqrt((own + gaps) / 2);
    });
    const near = leads.filter((lead) => lead < 13); // beyond it the factor is 1
    const stays = NODES.map((x, k) => WEIGHTS[k] * near.reduce((all, lead) => all * below(lead + x), 1));
    return 1 - stays.reduce((a, b) => a + b) / TOTAL;
  });
}

/** How many choices turn at these bits, and how many the formula forecasts, of the heads that are named. */
export function turns(heads, bits) {
  let [counted, told] = [0, 0];
  for (const head of heads) {
    const now = selects(head);
    counted += selects(roundedHead(head, bits)).filter((to, i) => to !== now[i]).length;
    told += forecast(head, bits).reduce((a, b) => a + b);
  }
  return { counted, forecast: told };
}

// ---- the figure ---------------------------------------------------------------------------------

/** The configuration in Python. */
export function python({ layer, head, bits }, place = 0) {
  return [
    "import numpy as np, torch",
    "from heads.bits import Choices, count_flips, forecast, head_logits",
    "from heads.weights import Weights",
    "from workflow.site import reviews",
    "",
    `both = reviews.vectors(reviews.recorded(), ${place})[:, ${layer - 1}, ${head - 1}]`,
    "queries, keys = (torch.tensor(part.astype(float)).mT[None] for part in both)",
    "one, zero = torch.eye(keys.shape[-1]).double(), torch.zeros(1, 32).double()",
    "head = Weights(queries, zero, keys, None, None, None, None, 32**-0.5)",
    "tokens = one.expand(len(one), -1, -1)",
    "choices = Choices(tokens, one, head_logits(head, 0, tokens, one))",
    `print(count_flips(head, 0, choices, ${bits}).sum(), forecast(head, 0, choices, ${bits}).sum())`,
  ];
}

export function heads(root, tag) {
  const reviews = JSON.parse(root.dataset.words).map(([place, words]) => ({ place, words })),
    numbers = (globalThis.HEADS ??= {}),
    asked = {},
    known = {}, // numbers by place, sums over all heads by place and bits
    sums = {};
  const nameOf = ({ words }) => `${words.slice(1, 6).join(" ").replaceAll(" ##", "")} …`;
  const first = { review: nameOf(reviews[0]), layer: 1, head: 4, bits: 3, token: 0 }; // where choices differ
  const current = (state) => reviews.find((one) => nameOf(one) === state.review);
  const ui = frame(root, {
    tag,
    title: "Rounding MiniLM's keys and queries.",
    hint:
      "An arrow goes from each token to the one that it selects; the stronger the tint of a token on the right, the more " +
      "attention it gets. Drag the bits down: arrows that turn light up.",
    first,
    check: ({ token }) => needed(Number.isInteger(token) && token >= 0, `token is ${token}`),
    render,
    python: (state) => python(state, current(state).place),
  });
  const svg = make("svg", { class: "explore-plane", role: "img", "aria-label": "What tokens select: not read yet" });
  ui.stage.append(svg);
  new ResizeObserver(() => ui.ask()).observe(ui.stage);
  let seen = false; // numbers are brought once the figure is on the screen
  new IntersectionObserver(([{ isIntersecting }]) => isIntersecting && !seen && ((seen = true), ui.ask())).observe(ui.stage);
  ui.slider("Bits", { key: "bits", min: FEWEST, max: MOST, step: 1 });
  ui.select("review", "Review", reviews.map((one) => nameOf(one)));
  ui.slider("Layer", { key: "layer", min: 1, max: LAYERS, step: 1 });
  ui.slider("Head", { key: "head", min: 1, max: HEADS, step: 1 });
  const move = (by) => () => {
    const { length } = current(ui.state()).words;
    return { token: (at(ui.state()) + by + length + 1) % (length + 1) };
  };
  const queries = { "‹ token before": move(-1), "next token ›": move(1), "all tokens": () => ({ token: 0 }) };
  ui.presets("Attention of", Object.entries(queries));

  /** The query token whose attention is shown, from 1; 0 for the mean of all. */
  const at = (state) => (state.token > current(state).words.length ? 0 : state.token);

  /** Numbers of a review, or null while its script is on the way. */
  function loaded({ place }) {
    if (numbers[place]) return (known[place] ??= decoded(numbers[place]));
    if (!seen) return null;
    asked[place] ??= make("script", { src: new URL(`heads/${place}.js`, HERE).href, onload: ui.ask, onerror: ui.ask });
    if (!asked[place].isConnected) document.head.append(asked[place]);
    return null;
  }

  function render(state) {
    const review = current(state),
      all = loaded(review);
    if (!all) return ui.say(() => `The keys and queries of this review are on their way: heads/${review.place}.js.`);
    const head = headOf(all, review.words.length, state.layer - 1, state.head - 1),
      from = selects(head),
      to = selects(roundedHead(head, state.bits));
    draw(review.words, attention(head), from, to, at(state));
    ui.say(() => told(state, review, all, from, to));
  }

  function draw(words, shares, from, to, token) {
    const width = ui.stage.clientWidth,
      [left, right] = [0.36 * width, 0.64 * width],
      y = (t) => TOP + LINE * t;
    const asking = token ? [shares[token - 1]] : shares,
      shade = words.map((_, t) => asking.reduce((sum, row) => sum + row[t], 0) / asking.length),
      most = Math.max(...shade);
    const text = (x, t, anchor, word, more = {}) =>
      make("text", { x, y: y(t), "text-anchor": anchor, "dominant-baseline": "central", ...more }, word);
    const arrow = (i, t, look) => {
      const [x0, x1, middle] = [left + 6, right - 8, width / 2];
      const tip = "m-6 -3.5l6 3.5l-6 3.5";
      return make("path", { class: look, d: `M${x0} ${y(i)}C${middle} ${y(i)} ${middle} ${y(t)} ${x1} ${y(t)}${tip}` });
    };
    const straight = from.map((t, i) => arrow(i, t, to[i] === t ? "thin none" : "thin none dotted")),
      turned = to.flatMap((t, i) => (t === from[i] ? [] : [arrow(i, t, "wide c3")]));
    const height = y(words.length - 1) + 12,
      box = (t) => ({ x: right - 4, y: y(t) - 8, width: width - right + 4, height: 15 });
    give(svg, "style", `height:${height}px`);
    give(svg, "viewBox", `0 0 ${width} ${height}`);
    give(svg, "aria-label", `What ${words.length} tokens select, and ${plural(turned.length, "arrow")} that turned`);
    svg.replaceChildren(
      ...shade.map((share, t) =>
        make("rect", { ...box(t), class: "area i0", style: `fill-opacity:${((0.6 * share) / most).toFixed(3)}` }),
      ),
      text(left, -1.1, "end", "query token"),
      text(right, -1.1, "start", "selected token"),
      ...straight,
      ...turned,
      ...words.map((word, t) =>
        text(left, t, "end", word, {
          class: token === t + 1 ? "i0" : "",
          style: `cursor:pointer;font-weight:${token === t + 1 ? 700 : 400}`,
          onclick: () => ui.set({ token: token === t + 1 ? 0 : t + 1 }),
        }),
      ),
      ...words.map((word, t) => text(right, t, "start", word, { style: "stroke:none" })),
    );
  }

  function told(state, { place, words }, all, from, to) {
    const { layer, head, bits } = state,
      turned = to.filter((t, i) => t !== from[i]).length,
      one = headOf(all, words.length, layer - 1, head - 1),
      token = at(state);
    const key = `${place} ${bits}`,
      forecasts = ({ forecast: number }) => `our formula forecasts ${number.toFixed(1)}`;
    if (!ui.moving()) sums[key] ??= turns(everyHead(all, words.length), bits);
    let text = `At ${bits} bits, arrows that turn: ${turned} of ${words.length} (${forecasts(turns([one], bits))}).`;
    if (sums[key]) text += ` In all ${LAYERS * HEADS} heads: ${sums[key].counted} (${forecasts(sums[key])}).`;
    if (!token) return text;
    const [now, then] = [from[token - 1], to[token - 1]],
      share = Math.round(100 * attention(one)[token - 1][now]),
      turn = now === then ? "" : `; rounded it selects “${words[then]}”`;
    return `${text} “${words[token - 1]}” gives “${words[now]}” most attention, ${share} %${turn}.`;
  }
  ui.start();
  return ui;
}

/** All heads of a review. */
export const everyHead = (numbers, count) =>
  Array.from({ length: LAYERS * HEADS }, (_, k) => headOf(numbers, count, Math.floor(k / HEADS), k % HEADS));
