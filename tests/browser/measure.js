// What a reader finds on the page as it stands now: at this width, in this theme. Lists name what is wrong.
() => {
  const article = document.querySelector("article"), night = document.documentElement.dataset.theme === "dark";
  const all = (selector) => [...article.querySelectorAll(selector)].filter((one) => one.checkVisibility());
  const said = (one) => (one.closest("[id]")?.id || "") + ": " + (one.textContent || one.outerHTML).trim().slice(0, 60);
  const figures = all("figure :is(img, svg, canvas), .hero :is(svg, canvas)");
  const outside = (one, place) => one.getBoundingClientRect().right > place.getBoundingClientRect().right + 2;
  const over = (one) => one.scrollWidth > one.clientWidth + 2;

  const parts = (colour) => colour.match(/[\d.]+/g).map(Number);
  const light = (rgb) => rgb.slice(0, 3).map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, k) => sum + [0.2126, 0.7152, 0.0722][k] * c, 0);
  const onto = (top, below) => top.slice(0, 3).map((c, k) => c * (top[3] ?? 1) + below[k] * (1 - (top[3] ?? 1)));
  function ground(one) {
    const layers = [];
    for (let at = one; at; at = at.parentElement) {
      const colour = parts(getComputedStyle(at).backgroundColor);
      if (colour[3] !== 0) layers.unshift(colour);
      if ((colour[3] ?? 1) === 1) break;
    }
    return layers.reduce((below, top) => onto(top, below), [255, 255, 255]);
  }
  function contrast(one, colour) {
    const below = ground(one), here = [light(onto(parts(colour), below)), light(below)];
    return (Math.max(...here) + 0.05) / (Math.min(...here) + 0.05);
  }
  const drawings = figures.filter((one) => one.matches("svg.drawing"));
  const letters = drawings.flatMap((svg) => [...svg.querySelectorAll("text:not(:has(tspan)), tspan")]
    .filter((one) => one.textContent.trim()).map((one) => {
      const size = parseFloat(getComputedStyle(one).fontSize), { a, b } = (one.closest("text")).getScreenCTM();
      return { one, size: size * Math.hypot(a, b), index: size < 9 };
    }));
  // Labels of a drawing that a line crosses: no name of an axis or of a tick, which stand outside of the frame.
  const struck = drawings.flatMap((svg) => {
    const lines = [...svg.querySelectorAll("path")].filter((one) => {
      const { fill, stroke } = getComputedStyle(one);
      return fill === "none" && stroke !== "none" && !one.closest("defs");
    }).map((one) => {
      const seen = one.getScreenCTM(), numbers = one.getAttribute("d").match(/-?[\d.]+/g).map(Number);
      const place = (x, y) => [seen.a * x + seen.c * y + seen.e, seen.b * x + seen.d * y + seen.f];
      const cut = document.getElementById(/#([^)]+)/.exec(one.getAttribute("clip-path"))?.[1])?.firstElementChild.getBBox();
      return {
        points: numbers.flatMap((x, k) => k % 2 ? [] : [place(x, numbers[k + 1])]),
        within: cut ? [place(cut.x, cut.y), place(cut.x + cut.width, cut.y + cut.height)] : [[-1e6, -1e6], [1e6, 1e6]],
      };
    });
    return [...svg.querySelectorAll("text")].filter((text) => {
      const { left, right, top, bottom } = text.getBoundingClientRect(), inset = (bottom - top) / 4;
      const box = [[left + 2, right - 2], [top + inset, bottom - inset]];
      return lines.some(({ points, within: [from, until] }) => {
        const seen = box.map(([low, high], axis) => [Math.max(low, from[axis]), Math.min(high, until[axis])]);
        return seen.every(([low, high]) => low < high) && points.some((to, k) => k && crosses(points[k - 1], to, seen));
      });
    }).map(said);
  });
  function crosses(from, to, box) {
    let [start, end] = [0, 1];
    box.forEach(([low, high], axis) => {
      const far = to[axis] - from[axis], [one, other] = [low, high].map((side) => (side - from[axis]) / far);
      if (far) [start, end] = [Math.max(start, Math.min(one, other)), Math.min(end, Math.max(one, other))];
      else if (from[axis] < low || from[axis] > high) end = -1;
    });
    return start < end;
  }
  const texts = all("*").filter((one) => !one.closest("math, svg, .highlight, [aria-hidden=true]") &&
    [...one.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim()));

  return {
    width: document.documentElement.scrollWidth,
    formulas: all("div.formula").filter(over).map(said),
    inline: all("span.math").filter((one) => outside(one, one.parentElement.closest("p, li, td, dd, div, section"))).map(said),
    tables: all(":is(.pst-scrollable-table-container, .text_html):has(table)").filter(over).map(said),
    code: all("div.cell div.highlight pre").filter(over).map(said),
    unmarked: all("div.formula, .pst-scrollable-table-container, .text_html").filter((one) => over(one) && !one.matches(".wide")).map(said),
    pictures: figures.map((one) => ({
      x: one.getBoundingClientRect().x, width: one.getBoundingClientRect().width, right: one.getBoundingClientRect().right,
      alt: one.alt ?? one.getAttribute("aria-label") ?? "", drawn: one.localName !== "img" || one.naturalWidth > 600, ground: ground(one),
      sized: one.localName !== "img" || (one.hasAttribute("width") && one.hasAttribute("height")), bitmap: one.localName === "img",
    })),
    struck,
    letters: Math.min(...letters.filter(({ index }) => !index).map(({ size }) => size), 99),
    indices: Math.min(...letters.filter(({ index }) => index).map(({ size }) => size), 99),
    pale: [
      ...texts.filter((one) => contrast(one, getComputedStyle(one).color) < 4.45),
      // By night they are inverted, which keeps their contrast (tests/test_vectors.py).
      ...letters.map(({ one }) => one).filter((one) => !night && contrast(one, getComputedStyle(one).fill) < 4.45),
    ].map((one) => one.localName + " " + said(one)),
    formulas_set: [article.querySelectorAll("math").length, article.querySelectorAll(".math").length],
    nameless: [...document.querySelectorAll("button, a[href], input, select, summary")].filter((one) => one.checkVisibility() &&
      !(one.textContent.trim() || one.getAttribute("aria-label") || one.title || one.dataset.bsTitle || one.labels?.length)).map((one) => one.outerHTML.slice(0, 120)),
    jumps: document.querySelectorAll("[tabindex]:not([tabindex='0'], [tabindex='-1'])").length,
    headings: all("h1").length,
    about: Object.fromEntries([...document.querySelectorAll("meta[content]")].map((tag) => [tag.name || tag.getAttribute("property"), tag.content])),
    title: document.title,
  };
}
