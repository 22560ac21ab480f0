// Search that forgives: a word with a slip finds the nearest word of the index, a page that lacks a word is found further below,
// and what a page is about counts more than what it mentions. Sphinx keeps the index and shows what is found.
(() => {
  if (typeof Search === "undefined") return;
  const ASIDE = /^book\/(rows|verdict-changes|sources|compare|bibliography|library\/)|^genindex|^prf-prf/; // last where others fit as well
  const WORTH = { about: 12, title: 8, section: 3, text: 1 };
  const ASKING = "what how why which where when who does do can is are my i get find about mean".split(" "); // say that something is asked
  const split = (text) => splitQuery(text.toLowerCase().replace(/ℓ/g, "l")).filter((word) => ![...stopwords, ...ASKING].includes(word));
  const stemmer = new Stemmer();
  const stems = (text) => [...new Set(split(text).map((word) => stemmer.stemWord(word)))];
  const listed = new Map([...document.querySelectorAll(".bd-sidebar-primary a")].map((link) => [link.pathname, link.textContent.trim()]));
  let known;

  // Title of a page, after its name in the list of pages where that is another.
  function named(name, title) {
    const called = listed.size && listed.get(new URL(name + DOCUMENTATION_OPTIONS.FILE_SUFFIX, location).pathname);
    return called && !title.startsWith(called) ? `${called} – ${title}` : title;
  }

  // Changes of a letter, swapped neighbours among them, that turn one word into another; more than `most` count as one more.
  function slips(one, other, most) {
    if (Math.abs(one.length - other.length) > most) return most + 1;
    let before = [], row = [...Array(other.length + 1).keys()];
    for (let i = 1; i <= one.length; i++) {
      const next = [i];
      for (let j = 1; j <= other.length; j++) {
        next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (one[i - 1] !== other[j - 1]));
        if (i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1]) next[j] = Math.min(next[j], before[j - 2] + 1);
      }
      [before, row] = [row, next];
    }
    return Math.min(row[other.length], most + 1);
  }

  // Phrases that name a page or a part of it: [what it is, its words, page, anchor]; and the words of each page.
  function read(index) {
    const phrases = [], texts = new Map();
    const note = (kind, phrase, page, anchor) => phrases.push([kind, stems(phrase), page, anchor ? `#${anchor}` : ""]);
    for (const [phrase, places] of Object.entries(index.indexentries)) for (const [page, anchor] of places) note("about", phrase, page, anchor);
    for (const [phrase, places] of Object.entries(index.alltitles))
      for (const [page, anchor] of places) note(anchor === null ? "title" : "section", phrase, page, anchor);
    for (const terms of [index.terms, index.titleterms])
      for (const [word, pages] of Object.entries(terms)) texts.set(word, new Set([...(texts.get(word) ?? []), ...[pages].flat()]));
    for (const [, words, page] of phrases) for (const word of words) texts.set(word, (texts.get(word) ?? new Set()).add(page));
    return { phrases, texts, count: index.docnames.length };
  }

  // Words of the index that a word of the query may mean, with how surely.
  function meant(word) {
    if (known.texts.has(word)) return new Map([[word, 1]]);
    const words = [...known.texts.keys()], longer = words.filter((one) => word.length > 2 && one.startsWith(word));
    if (longer.length) return new Map(longer.map((one) => [one, 0.8]));
    const most = word.length < 4 ? 0 : word.length < 7 ? 1 : 2;
    const near = words.map((one) => [one, slips(word, one, most)]).filter(([, count]) => count <= most);
    const least = Math.min(...near.map(([, count]) => count));
    return new Map(near.filter(([, count]) => count === least).map(([one]) => [one, 0.7]));
  }

  Search._performSearch = (query) => {
    const index = Search._index;
    known ??= read(index);
    document.getElementById("search-progress")?.replaceChildren();
    const asked = stems(query).map(meant).filter((words) => words.size);
    const rare = asked.map((words) => Math.log(1 + known.count / new Set([...words.keys()].flatMap((word) => [...known.texts.get(word)])).size));
    const all = rare.reduce((sum, value) => sum + value, 0) || 1;
    const sureness = (words, list) => Math.max(0, ...list.map((word) => words.get(word) ?? 0));
    // of a page: for each word the worth of the best place where it stands, and the phrase that fits the query best
    const best = index.docnames.map(() => ({ words: asked.map(() => 0), phrase: 0, anchor: "" }));
    for (const [kind, list, page, anchor] of known.phrases) {
      const sure = asked.map((words) => sureness(words, list)),
        found = sure.reduce((sum, value, k) => sum + value * rare[k], 0) / all;
      if (!found) continue;
      const whole = sure.filter((value) => value).length / list.length; // how much of the phrase the query has
      const score = WORTH[kind] * found ** 2 * whole;
      sure.forEach((value, k) => (best[page].words[k] = Math.max(best[page].words[k], WORTH[kind] * value * (1 + whole) / 2)));
      if (score > best[page].phrase) Object.assign(best[page], { phrase: score, anchor });
    }
    const results = index.docnames.map((name, page) => {
      const { words, phrase, anchor } = best[page],
        inText = asked.map((own) => WORTH.text * Math.max(0, ...[...own].map(([word, sure]) => (known.texts.get(word).has(page) ? sure : 0))));
      const sum = words.reduce((total, worth, k) => total + rare[k] * Math.max(worth, inText[k]), 0) / all;
      return [name, named(name, index.titles[page]), anchor, null, (sum + phrase) * (ASIDE.test(name) ? 0.4 : 1), index.filenames[page]];
    });
    const least = Math.max(...results.map((result) => result[4])) / 12;
    return results.filter((result) => result[4] > least).sort((one, other) => one[4] - other[4]); // the last is shown first
  };
})();
