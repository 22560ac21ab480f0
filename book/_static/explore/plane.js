// A plane with equal scales: a drawing that keeps its nodes, with handles to drag by pointer, touch or keys.
import { LOOKS } from "./looks.js";
import { clamp, give, make, rounded, write } from "./view.js";

// Pixels around a drawing in which all of a line is drawn; beyond it has points so far apart, which no chord of
// theirs brings into sight.
const AROUND = 100;

// Shapes as their paths from a point on, by half their size in pixels.
export const square = (half) => `m${-half} ${-half}h${2 * half}v${2 * half}h${-2 * half}z`;
export const circle = (half) => `m${-half} 0a${half} ${half} 0 1 0 ${2 * half} 0a${half} ${half} 0 1 0 ${-2 * half} 0z`;
export const star = (half) => {
  const corner = (k) =>
    [Math.sin((k * Math.PI) / 5), -Math.cos((k * Math.PI) / 5)].map((x) => x * half * (k % 2 ? 0.6 : 1.4));
  return `${Array.from({ length: 10 }, (_, k) => {
    const [x, y] = corner(k).map((part, axis) => (part - (k ? corner(k - 1)[axis] : 0)).toFixed(2));
    return `${k ? "l" : "m"}${x} ${y}`;
  }).join("")}z`;
};

/**
 * A plane with equal scales, as wide as its stage, of the figure ui, which draws.
 *
 * tall(width) is its height, where that is not a ratio. Its nodes have names and stay from drawing to drawing, so
 * that one can be dragged, or have the focus, while all else changes.
 */
export function plane(stage, { name, ratio = 0.7, tall, ui }) {
  const svg = make("svg", { role: "group", "aria-label": name, class: "explore-plane" }),
    layers = {},
    kept = new Map();
  // Each layer has a ground that is larger than all that moves on it: as long as no bounds and no transforms change,
  // the browser need not compose the layers of the page anew for a frame.
  for (const layer of ["back", "lines", "trails", "front", "handles"]) {
    const ground = make("rect", { x: -2e7, y: -2e7, width: 4e7, height: 4e7, class: "explore-ground" });
    svg.append((layers[layer] = make("g", {}, ground)));
  }
  layers.trails.setAttribute("transform", "scale(.1)");
  stage.append(svg);
  const self = { svg, width: 0, height: 0, window: [-1, 1, -1, 1] };
  let used = new Set(),
    labels = [], // of this frame, as they were asked for
    marked = [], // places that they leave free
    held = null;

  new ResizeObserver(() => {
    const width = Math.round(stage.clientWidth),
      high = tall?.(width) ?? width * (width < 500 ? Math.min(1.4 * ratio, 0.85) : ratio),
      height = Math.round(Math.min(high, 0.75 * innerHeight));
    if (width === 0 || (width === self.width && height === self.height)) return;
    Object.assign(self, { width, height });
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.style.height = `${height}px`;
    ui.ask();
  }).observe(stage);

  /** Show at least this window [left, right, bottom, top]. */
  self.look = ([left, right, bottom, top]) => {
    const scale = Math.min(self.width / (right - left), self.height / (top - bottom));
    const [w, h] = [self.width / scale / 2, self.height / scale / 2],
      [x, y] = [(left + right) / 2, (bottom + top) / 2];
    self.scale = scale;
    self.window = [x - w, x + w, y - h, y + h];
  };
  self.to = ([x, y]) => [(x - self.window[0]) * self.scale, (self.window[3] - y) * self.scale];
  /** Where a point of the plane is drawn, as an attribute has it. */
  const placed = (at) => self.to(at).map((x) => clamp(x, -9e3, 9e3).toFixed(1));
  /** Where the drawing is on the page. */
  const corner = () => {
    const box = svg.getBoundingClientRect();
    return [box.left + scrollX, box.top + scrollY];
  };
  const from = (event, [left, top] = corner()) => [
    self.window[0] + (event.pageX - left) / self.scale,
    self.window[3] - (event.pageY - top) / self.scale,
  ];

  /** Have a node of this name with these attributes, and with this text. */
  self.put = (layer, key, name, attributes, text) => {
    const node = kept.get(key) || layers[layer].appendChild(make(name));
    kept.set(key, node);
    used.add(key);
    for (const attribute in attributes) give(node, attribute, attributes[attribute]);
    if (text) write(node, text);
    return node;
  };
  /** Write the labels, and take away what was not put since the last call. */
  self.tidy = () => {
    writeLabels();
    for (const [key, node] of kept) {
      if (used.has(key)) continue;
      node.remove();
      kept.delete(key);
    }
    used = new Set();
  };

  self.segment = (key, a, b, look) => {
    const [[x1, y1], [x2, y2]] = [placed(a), placed(b)];
    self.put("lines", key, "line", { x1, y1, x2, y2, class: look });
  };
  /** A ray from the origin to the border, and its name there, on its left or on its right. */
  self.ray = (key, [x, y], look, label, left = x > 0 === y < 0) => {
    const [west, east, south, north] = self.window,
      reach = Math.min(x ? (x > 0 ? east : west) / x : Infinity, y ? (y > 0 ? north : south) / y : Infinity);
    if (!(reach > 0)) return;
    self.segment(key, [0, 0], [reach * x, reach * y], look);
    if (!label) return;
    const size = Math.hypot(x, y) * (left ? -1 : 1),
      [wide, high] = [label.length * 7.8 + 6, 15];
    for (let back = 0; back < 300; back += 4) {
      // so far from the border that all of it is seen
      const [u, v] = self.to([reach * x, reach * y]).map(
        (at, k) => at + (7 * [y, x][k]) / size - (back * [x, -y][k]) / Math.abs(size),
      );
      const [from, top] = [y / size < 0 ? u - wide : u, x / size < 0 ? v - high : v];
      if (from < 2 || top < 2 || from + wide > self.width || top + high > self.height) continue;
      self.label(`${key} name`, from, top + 12, label, look);
      return;
    }
  };
  /** Names and their colours, on a plate that keeps lines below from crossing the words. */
  self.legend = (x, y, names) => {
    const width = 7.5 * Math.max(...names.map(([text]) => text.length)) + 10;
    self.put("front", "legend", "rect", { x: x - 5, y: y - 14, width, height: 17 * names.length + 4, class: "plate" });
    names.forEach(([text, look], k) => self.label(`legend ${k}`, x, y + 17 * k, text, look));
  };
  /** A text whose first line begins here, or near by where another one or a handle is. */
  self.label = (key, x, y, text, look = "") => labels.push([key, x, y, text, look]);
  /** Write the labels once all handles of the frame have their places. */
  function writeLabels() {
    const written = [],
      handles = [...layers.handles.querySelectorAll(".explore-handle")].filter((node) => used.has(node.dataset.key)),
      grips = handles.map((node) => [...self.to(node.act.at), node.matches(".explore-pointed") ? 20 : 10]),
      boxes = [...marked, ...grips];
    for (const [key, left, base, text, look] of labels) {
      const wide = 7.2 * text.length;
      const apart = ([x, y]) =>
        (x === left || (x > 1 && x + wide < self.width)) && y >= 12 && y <= self.height - 2 &&
        written.every(([u, v, w]) => x > u + w || u > x + wide || Math.abs(v - y) >= 15); // prettier-ignore
      const clear = ([x, y]) =>
        boxes.every(([u, v, r]) => x > u + r || x + wide < u - r || y - 11 > v + r || y + 3 < v - r);
      const downs = [0, 16, -16, 32, -32, 48, -48].map((down) => base + down),
        free = [0, -wide - 26, wide + 26, 26 - wide].flatMap((across) => downs.map((y) => [left + across, y])).filter(apart);
      const [x, y] = free.find(clear) ?? free[0] ?? [left, base];
      written.push([x, y, wide]);
      self.put("front", key, "text", { x: x.toFixed(1), y: y.toFixed(1), class: look }, text);
    }
    labels = [];
    marked = [];
  }
  /** A text beside a point of the plane, whole. */
  self.beside = (key, at, dx, dy, text, look) =>
    self.label(key, clamp(self.to(at)[0] + dx, 4, self.width - text.length * 7.5), self.to(at)[1] + dy, text, look);
  self.dot = (key, at, r, look) => {
    const [cx, cy] = placed(at);
    if (Number.isFinite(cx - cy)) self.put("front", key, "circle", { cx, cy, r, class: `dot ${look}` });
  };
  /** A shape, d of its own, at a point of the plane. */
  self.mark = (key, at, d, look) => self.marks(key, [at], d, look) && marked.push([...self.to(at), 10]);
  self.area = (layer, key, points, look) =>
    self.put(layer, key, "path", { d: `M${points.map(placed).join("L")}Z`, class: look });
  /** The line row . x = level, from so far on one side of its foot to the other; the function that has its points. */
  self.across = (key, [x, y], level, look) => {
    const size = Math.hypot(x, y),
      on = (far) => [(level / size) * x - far * y, (level / size) * y + far * x].map((part) => part / size);
    if (size > 0) self.segment(key, on(-30), on(30), look);
    return on;
  };
  /** The window's part of what lies beyond all lines row . x = 1: its border, cut by one after the other. */
  self.beyond = (rows) => {
    const [left, right, bottom, top] = self.window;
    return rows.reduce(
      (corners, [x, y]) =>
        corners.flatMap((at, k) => {
          const next = corners[(k + 1) % corners.length],
            [a, b] = [at, next].map(([u, v]) => x * u + y * v - 1);
          const cut = a * b < 0 ? [at.map((u, j) => u + ((next[j] - u) * a) / (a - b))] : [];
          return a >= 0 ? [at, ...cut] : cut;
        }),
      [
        [left, bottom],
        [right, bottom],
        [right, top],
        [left, top],
      ],
    );
  };
  /** The last point of a path before it leaves the window. */
  self.lastSeen = (path) => {
    const [west, east, south, north] = self.window;
    let k = 0;
    while (path[k] >= west && path[k] <= east && path[k + 1] >= south && path[k + 1] <= north) k += 2;
    return [path[Math.max(k - 2, 0)], path[Math.max(k - 1, 1)]];
  };
  self.axes = () => {
    self.segment("x axis", [self.window[0], 0], [self.window[1], 0], "axis");
    self.segment("y axis", [0, self.window[2]], [0, self.window[3]], "axis");
  };
  /** The points x0, y0, x1, ... to the last one, as a line, without those that nobody would see. */
  function line(points, last, headed) {
    const [x0, y0] = self.to([0, 0]),
      [x1, y1] = self.to([1, 1]),
      fine = ui.moving() ? 9 : 2; // square of the distance of two points, in pixels
    let d = "",
      u = NaN,
      v = NaN,
      tip = [], // where it is last seen
      back = []; // and, some pixels apart, where it was before
    const far = 2 * Math.floor(last), // it may end between two points
      end = [0, 1].map((axis) => points[far + axis] + (last % 1 && (last % 1) * (points[far + 2 + axis] - points[far + axis]))); // prettier-ignore
    for (let k = 0; k < last + 1; k++) {
      const x = x0 + (x1 - x0) * (k > last ? end[0] : points[2 * k]),
        y = y0 + (y1 - y0) * (k > last ? end[1] : points[2 * k + 1]),
        size = x * x + y * y,
        near = x > -AROUND && x < self.width + AROUND && y > -AROUND && y < self.height + AROUND;
      if (!(size < Infinity) || (k < last && (x - u) ** 2 + (y - v) ** 2 < (near ? fine : AROUND ** 2))) continue;
      const part = Math.min(10, 1e7 / Math.sqrt(size)); // a browser reads no longer numbers
      d += `${d ? "L" : "M"}${Math.round(part * x)} ${Math.round(part * y)}`;
      u = x;
      v = y;
      if (!headed || x < 0 || y < 0 || x > self.width || y > self.height) continue;
      tip = [x, y];
      if (!back.length || Math.hypot(x - back[0], y - back[1]) > 9) back.unshift(x, y);
    }
    const [a, b] = Math.hypot(tip[0] - back[0], tip[1] - back[1]) > 4 ? back : back.slice(2),
      turn = Math.atan2(tip[1] - b, tip[0] - a),
      wing = (by) => tip.map((x, k) => Math.round(10 * (x - 9 * (k ? Math.sin : Math.cos)(turn + by)))).join(" ");
    return a === undefined ? d : `${d}M${wing(0.45)}L${tip.map((x) => Math.round(10 * x)).join(" ")}L${wing(-0.45)}`;
  }
  self.trail = (key, points, look, last) => self.trails(key, [[points, last]], look);
  /** Lines of one look, each [points, last], as one node: a browser styles each node that changes. */
  self.trails = (key, lines, look) => {
    const headed = !self.graph && look.split(" ").includes(LOOKS.path),
      d = lines.map(([points, last = points.length / 2 - 1]) => line(points, last, headed)).join("");
    // in tenths: whole numbers are written fast
    self.put("trails", key, "path", { d: d || "M0 0", class: look });
  };
  /** Shapes of one look and one d at these points, as one node. */
  self.marks = (key, places, d, look) =>
    self.put("front", key, "path", { d: places.map((at) => `M${placed(at)}${d}`).join(""), class: look });
  /** Show just this window, with a scale of its own for each axis, right of a margin and left of another. */
  self.chart = (window, before, after) => {
    const [left, right, bottom, top] = (self.window = window);
    self.graph = true;
    self.to = ([x, y]) => [
      before + ((x - left) / (right - left)) * (self.width - before - after),
      ((top - y) / (top - bottom)) * self.height,
    ];
  };

  /**
   * A point to drag, by pointer, touch or arrow keys: move([x, y]) while it moves, done() when it rests.
   *
   * press(key) gets the other keys; chosen() is called when it gets the focus. Of those that are near, the pointer takes
   * the one that is armed, or else the nearest; of those on one spot the one with the focus, or else the first.
   */
  self.handle = (key, at, shape) => {
    const { name, value, look, draw, move, done, press = () => false, chosen = () => {} } = shape,
      { first = false, armed = false } = shape;
    const fresh = !kept.has(key),
      [cx, cy] = placed(at),
      node = self.put("handles", key, "g", {
        class: `explore-handle ${look}`,
        tabindex: 0,
        role: "slider",
        "aria-label": name,
        "aria-valuetext": value,
        "aria-valuenow": rounded(at[0]),
        "aria-roledescription": "point in the plane",
        "data-key": key,
      });
    node.act = { at, move, done, press, chosen, first, armed };
    if (fresh) {
      node.append(make("circle", { r: 22, class: "explore-hit" }), make("path", {}));
      node.addEventListener("focus", () => node.act.chosen());
      node.addEventListener("keydown", (event) => keyed(node, event));
    }
    // by coordinates, not by a transform
    give(node.firstChild, "cx", cx);
    give(node.firstChild, "cy", cy);
    give(node.lastChild, "d", `M${cx} ${cy}${draw}`);
  };

  function keyed(node, event) {
    const step = event.shiftKey ? 0.25 : 0.05,
      { at, move, done, press } = node.act;
    const turn = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] }[event.key];
    if (!turn && !press(event.key)) return;
    event.preventDefault();
    if (turn) move([rounded(at[0] + turn[0]), rounded(at[1] + turn[1])]);
    done();
    ui.now(); // before the next key, which goes on from here
  }

  /** Handles whose target a pointer meets, the nearest first, and of those on one spot the one with the focus. */
  const met = (event) => {
    const [left, top] = corner(),
      place = [event.pageX - left, event.pageY - top];
    const away = (node) => Math.hypot(...self.to(node.act.at).map((x, k) => x - place[k]));
    const rank = (node) => (document.activeElement === node ? 2 : Number(node.act.first));
    return [...layers.handles.children]
      .reverse()
      .filter((node) => node.act && away(node) <= (node.act.armed ? 44 : 22))
      .sort((a, b) => b.act.armed - a.act.armed || away(a) - away(b) || rank(b) - rank(a));
  };
  svg.addEventListener("pointerdown", (event) => {
    const [node, ...under] = event.button ? [] : met(event);
    if (!node) return;
    event.preventDefault();
    const below =
      document.activeElement === node && under.find((other) => String(other.act.at) === String(node.act.at));
    node.focus({ preventScroll: true });
    const origin = corner(); // it is asked once, for that lays out the page
    held = { node, below, origin, point: from(event, origin), at: node.act.at, moved: false };
    svg.setPointerCapture(event.pointerId);
  });
  // A finger on a handle drags it; anywhere else it scrolls the page. (touch-action is not heeded inside of an SVG.)
  svg.addEventListener("touchstart", (event) => met(event.touches[0]).length && event.preventDefault(), {
    passive: false,
  });
  svg.addEventListener("pointermove", (event) => {
    if (!held) return;
    const point = from(event, held.origin),
      [left, right, bottom, top] = self.window,
      inset = 8 / self.scale;
    held.moved ||= Math.hypot(point[0] - held.point[0], point[1] - held.point[1]) * self.scale > 2;
    if (!held.moved) return;
    const x = clamp(held.at[0] + point[0] - held.point[0], left + inset, right - inset);
    held.node.act.move([
      rounded(x),
      rounded(clamp(held.at[1] + point[1] - held.point[1], bottom + inset, top - inset)),
    ]);
  });
  const release = () => {
    if (held) held.node.act.done();
    // a second click takes what lies under the first
    if (held?.below && !held.moved) held.below.focus({ preventScroll: true });
    self.justHeld = held !== null;
    held = null;
  };
  svg.addEventListener("pointerup", release);
  svg.addEventListener("pointercancel", release);
  /** Call with the point where the empty plane is clicked. */
  self.onEmpty = (call) =>
    svg.addEventListener("click", (event) => {
      if (!self.justHeld && !met(event).length) call(from(event).map((x) => rounded(x)));
    });
  return self;
}
