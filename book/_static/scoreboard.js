// Find rows of the scoreboard by words and by standing. Without this script the page has all rows in reading order.
(() => {
  const tables = [...document.querySelectorAll("table.scoreboard")];
  if (!tables.length) return;
  const rows = tables.flatMap((table) => [...table.tBodies[0].rows]);
  const standing = (row) => row.cells[1].textContent.trim();
  const form = document.createElement("form");
  form.className = "find-rows";
  form.innerHTML =
    '<label>Find <input type="search" name="words" placeholder="Theorem 2, cone, Adam"></label>' +
    '<label>Standing <select name="standing"><option value="">any</option></select></label><p role="status"></p>';
  for (const one of new Set(rows.map(standing))) form.elements.standing.add(new Option(one));
  const show = () => {
    const words = form.elements.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = form.elements.standing.value;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word)) || (chosen && standing(row) !== chosen);
    }
    for (const table of tables) table.hidden = [...table.tBodies[0].rows].every((row) => row.hidden);
    form.querySelector("[role=status]").textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} statements`;
  };
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  (tables[0].closest("section") ?? tables[0].parentElement).before(form);
  show();
})();
