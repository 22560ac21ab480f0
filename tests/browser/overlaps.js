// Pairs of words and controls of a figure that lie over one another, and those that leave its box.
() => {
  const places = ':is(.explore-controls, .explore-foot, .explore-coach, .explore-quiz)';
  const parts = `${places} :is(p, span, input, output, select, button, summary, b)`;
  const boxes = [...document.querySelectorAll(parts)]
    .map((node) => [node, node.getBoundingClientRect()]).filter(([, box]) => box.width && box.height);
  const found = [];
  for (const [k, [a, one]] of boxes.entries()) for (const [b, other] of boxes.slice(k + 1)) {
    if (a.contains(b) || b.contains(a)) continue;
    const wide = Math.min(one.right, other.right) - Math.max(one.left, other.left);
    const high = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
    if (wide > 1 && high > 1) found.push([a.textContent || a.type, b.textContent || b.type, wide, high]);
  }
  const stage = document.querySelector('.explore-box').getBoundingClientRect();
  const right = stage.right + 1;
  for (const [node, box] of boxes) if (box.right > right) found.push(['outside', node.outerHTML.slice(0, 80)]);
  return found;
}
