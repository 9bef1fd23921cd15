"use strict";
const query = document.getElementById("query");
const results = document.getElementById("results");
query.hidden = false; // without JavaScript, there is no search

// On a wide screen, the list of pages is always open.
document.querySelector("nav details").open = matchMedia("(min-width: 900px)").matches;

// find returns the sections that contain all words, those with the words in their headings or one
// after the other first.
function find(words) {
  const found = [];
  const phrase = words.join(" ");
  for (const section of sections) {
    const title = (section.page + " " + section.title).toLowerCase();
    const text = section.text.toLowerCase();
    let score = title.includes(phrase) || text.includes(phrase) ? 20 * words.length : 0;
    const all = words.every((word) => {
      const inTitle = title.includes(word);
      score += (inTitle ? 20 : 0) + Math.min(text.split(word).length - 1, 5);
      return inTitle || text.includes(word);
    });
    if (all) found.push({ section, score });
  }
  return found.sort((a, b) => b.score - a.score).slice(0, 20).map((f) => f.section);
}

// excerpt returns the text around the words, or else the first of them, with the words marked.
function excerpt(text, words) {
  const lower = text.toLowerCase();
  const at = Math.max(0, lower.indexOf([words.join(" "), ...words].find((each) => lower.includes(each)) ?? "") - 60);
  const line = document.createElement("small");
  const escaped = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  for (const part of text.slice(at, at + 200).split(new RegExp(`(${escaped.join("|")})`, "i"))) {
    if (!words.includes(part.toLowerCase())) {
      line.append(part);
      continue;
    }
    const mark = document.createElement("mark");
    mark.textContent = part;
    line.append(mark);
  }
  return line;
}

function show() {
  const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
  results.hidden = words.length === 0;
  if (results.hidden) return;
  const found = find(words);
  results.replaceChildren(...found.map((section) => {
    const link = document.createElement("a");
    link.href = document.body.dataset.root + section.url;
    link.append(section.title === section.page ? section.page : `${section.page}: ${section.title}`, excerpt(section.text, words));
    return link;
  }));
  if (found.length === 0) results.textContent = "Nothing found.";
}

query.addEventListener("input", show);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && event.target !== query) {
    event.preventDefault(); // some browsers have a search of their own
  } else if (event.key === "Escape") {
    query.value = "";
    show();
  } else if (event.key === "Enter" && event.target === query) {
    results.querySelector("a")?.click();
  }
});
document.addEventListener("keyup", (event) => {
  if (event.key === "/" && event.target !== query) query.focus(); // now the key does not get into the field
});
results.addEventListener("click", () => { results.hidden = true; });
