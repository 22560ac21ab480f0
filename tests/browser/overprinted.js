// Pairs of words of a drawing that lie over one another.
() => [...document.querySelectorAll(".explore-plane")].flatMap(plane => {
  const texts = [...plane.querySelectorAll("text")].map(node => [node.textContent, node.getBoundingClientRect()]);
  const shared = (a, b, from, to) => Math.min(a[to], b[to]) - Math.max(a[from], b[from]);
  return texts.flatMap(([one, a], k) => texts.slice(0, k).filter(([, b]) =>
    shared(a, b, "left", "right") > 2 && shared(a, b, "top", "bottom") > 4
  ).map(([other]) => `${one} over ${other}`));
})
