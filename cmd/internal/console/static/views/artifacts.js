// Artifacts: the results that were moved out of the prompt, and the viewer, which reads
// only the lines that are visible.
import { h, add, replace, parse, time, absolute, bytes, count, plural, button, empty, path, sizeBar, sizeScale } from "../dom.js";
import { get } from "../api.js";
import { Scroller } from "../scroller.js";
import { table } from "./table.js";
import { tree } from "./tree.js";

const rowHeight = 60;
let scroller = null, keys = null;

function show(main, parts) {
  if (parts.length >= 2) return viewer(main, parts[0], parts[1], parts[2]);
  let items = [], seen = new Set(), next = 0, ended = false, loading = false, session = parts[0] || "";
  const abort = new AbortController();
  const box = h("div.scroll"), note = h("p.hint", { role: "status" });
  const filter = h("input", { type: "search", placeholder: "Session", "aria-label": "Session", "data-search": true, spellcheck: "false", value: session,
    onchange: e => { session = e.target.value.trim(); history.replaceState(null, "", "#/artifacts" + (session ? "/" + path(session) : "")); reset(); } });
  add(main, h("section.master.wide", {}, h("h1", {}, "Artifacts"), h("p.lead", {}, "Results that were too large for the prompt. The model reads them back in parts; here you see all of them."), h("div.filters", {}, filter), note, sizeScale(), box));
  scroller = new Scroller(box, {
    height: rowHeight, label: "Artifacts, newest first",
    row: i => {
      const a = items[i];
      return h("div", {}, h("a.line.artifact", { href: "#/artifacts/" + path(a.session, a.artifact_id) },
        h("span.stack", {}, h("span.line", {}, h("b", {}, (a.metadata || {}).tool_name || "artifact"), h("span.text.id", {}, a.session + " / " + a.artifact_id)), sizeBar(a.size)),
        h("span.num", {}, bytes(a.size)), h("span.num.wide", {}, plural(a.lines, "line")), h("span.num.ago", {}, time(a.created_at))));
    },
    range: (first, last) => { if (last > items.length - 20) more(); },
  });
  async function more() {
    if (loading || ended) return;
    loading = true;
    try {
      if (items.length === 0) replace(note, "Loading …");
      const page = await get("/api/artifacts" + (session ? "/" + path(session) : ""), { offset: next }, abort.signal);
      replace(note, page.damaged ? "Damaged records of artifacts, which are not in this list: " + count(page.damaged) : "");
      for (const a of page.artifacts.reverse()) {
        const key = a.session + "/" + a.artifact_id;
        if (!seen.has(key)) { seen.add(key); items.push(a); }
      }
      next = page.next_offset || 0;
      ended = !next;
    } catch (e) {
      if (e.name === "AbortError") return;
      ended = true;
      replace(note, e.message + " ", button("Try again", reset, ".quiet"));
    }
    loading = false;
    scroller.setCount(items.length);
    if (items.length === 0 && ended && !note.textContent) box.append(session ? empty("This session has no artifact", "Change the session above; its name must be exact.") : empty("No result was offloaded yet", "A result of more than 8,000 tokens is stored as an artifact. Make one:", "stevedore call shell 'command=seq 1 200000'"));
    else if (!ended && items.length < 20) more();
  }
  function reset() {
    items = []; seen = new Set(); next = 0; ended = false;
    replace(note);
    scroller.setCount(0);
    const old = box.querySelector(".empty");
    if (old) old.remove();
    more();
  }
  reset();
  return () => { abort.abort(); scroller.destroy(); scroller = null; };
}

const lineHeight = 20, blockLines = 100, blockChars = 160, maxBlocks = 60, longest = 1200;

// levelOf returns the level of a line of a log, or "". Only its start counts.
function levelOf(text) {
  const found = /\b(?:(fatal|panic|critical|crit|error|err)|(warn|warning)|(debug|trace))\b/i.exec(text.slice(0, 120).replace(/\x1b\[[\d;]*m/g, " ").slice(0, 80));
  return !found ? "" : found[1] ? "error" : found[2] ? "warn" : "debug";
}

// viewer shows one artifact. Text with very long lines is shown in rows of 160 characters.
function viewer(main, session, id, startAt) {
  const base = "/api/artifacts/" + path(session, id);
  const abort = new AbortController();
  const box = h("div.scroll.code", { "data-viewer": true });
  const head = h("div.viewer-head"), results = h("section.hits", { "aria-label": "Search results", hidden: true });
  const other = h("div.scroll.other", { hidden: true }); // the artifact in another form than its text
  add(main, h("section.viewer", {}, h("a.back", { href: "#/artifacts", "data-back": true }, "← All artifacts"), head, h("div.viewer-body", {}, box, other, results)));
  let record = null, byChars = false, hits = [], hit = -1, marked = 0;
  const blocks = new Map(), pending = new Map();

  async function loadBlock(n) {
    if (byChars) {
      const offset = n * blockLines * blockChars;
      const page = await get(base + "/get", { offset, limit: Math.min(15000, blockLines * blockChars) }, abort.signal);
      const chars = [...page.content];
      const rows = [];
      for (let i = 0; i < chars.length; i += blockChars) rows.push({ text: chars.slice(i, i + blockChars).join("").replace(/\n/g, "\u23ce").replace(/\t/g, " ") });
      return rows;
    }
    const rows = [], first = n * blockLines + 1, last = Math.min(first + blockLines - 1, record.lines);
    for (let start = first; start <= last;) {
      const part = await get(base + "/lines", { start_line: start, end_line: last }, abort.signal);
      for (const text of part.content.split("\n")) rows.push({ text: text.length > longest ? text.slice(0, longest) : text, cut: text.length > longest || (part.next_cursor && part.start_line === part.end_line) });
      start = part.end_line + 1;
    }
    return rows;
  }
  function need(first, last) {
    for (let n = Math.floor(first / blockLines); n <= Math.floor(last / blockLines); n++) {
      if (blocks.has(n) || pending.has(n)) continue;
      pending.set(n, true);
      loadBlock(n).then(rows => {
        blocks.set(n, rows);
        while (blocks.size > maxBlocks) blocks.delete(blocks.keys().next().value);
        pending.delete(n);
        scroller && redraw(n);
      }, e => {
        pending.delete(n);
        if (e.name === "AbortError") return;
        blocks.set(n, [{ text: e.message, error: true }]);
        scroller && redraw(n);
      });
    }
  }
  function redraw(n) {
    for (const [i, el] of scroller.rows) if (Math.floor(i / blockLines) === n) fill(el, i);
  }
  function fill(el, i) {
    const rows = blocks.get(Math.floor(i / blockLines));
    const row = rows && rows[i % blockLines];
    const label = byChars ? count(i * blockChars) : String(i + 1);
    el.classList.toggle("marked", marked === i + 1);
    el.dataset.level = row && levelOf(row.text);
    replace(el, h("span.n", { "aria-hidden": "true" }, label), row ? h("code", { class: row.error ? "bad" : "" }, row.text) : h("code.wait", {}, rows ? "" : "…"), row && row.cut ? h("span.tag", {}, "line continues") : null);
  }

  let settle = null;
  async function start() {
    try { record = await get(base, {}, abort.signal); } catch (e) {
      if (e.name !== "AbortError") replace(head, h("p.problem", {}, e.message));
      return;
    }
    if (/^image\/(png|jpeg|gif|webp)$/.test(record.media_type)) {
      drawHead();
      box.hidden = true;
      other.hidden = false;
      replace(other, h("img", { src: base + "/content", alt: "The picture of this artifact" }));
      return;
    }
    byChars = record.lines < 4 && record.chars > 4000 || record.chars / record.lines > 3000;
    const rows = byChars ? Math.ceil(record.chars / blockChars) : record.lines;
    drawHead();
    scroller = new Scroller(box, {
      height: lineHeight, label: "Content of the artifact",
      row: i => { const el = h("div"); fill(el, i); return el; },
      // A fast scroll loads only where it ends.
      range: (first, last) => { clearTimeout(settle); settle = setTimeout(() => need(first, last), blocks.size ? 60 : 0); },
    });
    box.style.setProperty("--digits", String(byChars ? count(record.chars).length : String(rows).length));
    scroller.setCount(rows);
    if (+startAt > 0) goTo(+startAt);
  }
  function goTo(line) {
    if (!scroller) return;
    marked = byChars ? 0 : Math.max(1, Math.min(line, scroller.count));
    scroller.show((byChars ? Math.floor(line / blockChars) : marked) - (byChars ? 0 : 1), "center");
    for (const [i, el] of scroller.rows) el.classList.toggle("marked", marked === i + 1);
  }

  function drawHead() {
    const line = h("input.short", { type: "text", inputmode: "numeric", "aria-label": byChars ? "Go to character" : "Go to line", placeholder: byChars ? "Character" : "Line",
      onkeydown: e => { if (e.key === "Enter") goTo(+e.target.value.replace(/\D/g, "")); } });
    const pattern = h("input", { type: "search", "data-search": true, spellcheck: "false", "aria-label": "Search with a regular expression", placeholder: "Search (regular expression)", onkeydown: e => { if (e.key === "Enter") grep(pattern.value, fold.checked); } });
    const fold = h("input", { type: "checkbox", id: "fold" });
    const jq = record.type === "JSON" ? h("input", { type: "search", spellcheck: "false", "aria-label": "jq query", placeholder: "jq, such as .items | length", onkeydown: e => { if (e.key === "Enter") query(e.target.value); } }) : null;
    const meta = record.metadata || {}, tabular = !/^text\/plain/.test(record.media_type) || /^a table with /.test(record.summary);
    const forms = { Text: null, Table: tabular && (() => table(other, base, record.artifact_id, abort.signal)), Tree: record.type === "JSON" && (() => tree(other, base, abort.signal)) };
    const choose = h("div.line", { role: "group", "aria-label": "Form" }, Object.keys(forms).filter(name => forms[name] !== false).map(name => button(name, e => {
      for (const b of choose.children) b.setAttribute("aria-pressed", b === e.target);
      other.hidden = name === "Text";
      box.hidden = !other.hidden;
      if (forms[name]) forms[name]();
    }, ".quiet")));
    choose.firstChild.setAttribute("aria-pressed", true);
    replace(head,
      h("div.line.title", {}, h("h1", {}, meta.tool_name || "Artifact"), h("span.id", {}, record.session + " / " + record.artifact_id), h("span.grow"),
        button("Copy link", copyLink, ".quiet"), h("a.button", { href: base + "/content", download: true }, "Save")),
      h("p.hint", {}, bytes(record.size) + ", " + plural(record.lines, "line") + ", about " + count(record.tokens) + " tokens, " + record.type + (record.truncated ? ", truncated by the worker" : "") + ". Stored ", time(record.created_at), ", expires ", time(record.expires_at), ". ",
        meta.biz_id || record.artifact_id ? h("a", { href: "#/calls/" + path(record.session, record.artifact_id) }, "Its call") : null, byChars ? ". Its lines are very long, so a row here is 160 characters." : ""),
      box.hidden || record.type === "BINARY" ? null : h("div.filters", {}, choose.children.length > 1 && choose, pattern, h("label.check", { for: "fold" }, fold, "ignore case"), button("Search", () => grep(pattern.value, fold.checked)), jq, line));
  }

  // The link needs no token for an hour, so that another program can fetch the bytes.
  async function copyLink(e) {
    const copy = e.currentTarget;
    try {
      const link = await get(base + "/link", {}, abort.signal);
      await navigator.clipboard.writeText(location.origin + link.path);
      copy.textContent = "Copied, valid for 1 h";
    } catch (error) {
      if (error.name !== "AbortError") copy.textContent = "Cannot copy: " + error.message;
    }
  }

  let job = 0;
  async function grep(pattern, ignore) {
    if (!pattern) { results.hidden = true; hits = []; return; }
    const mine = ++job;
    results.hidden = false;
    replace(results, h("p.hint", {}, "Searching " + bytes(record.size) + " …"));
    try {
      const found = await get(base + "/grep", { pattern, ignore_case: ignore, max_results: 500 }, abort.signal);
      if (mine !== job) return;
      hits = found.lines || [];
      hit = -1;
      const items = h("ol.hitlist", {}, hits.map((l, i) => h("li", {}, h("button.hit", { type: "button", onclick: () => jump(i) }, h("span.n", {}, count(l.line)), h("code", {}, l.text.slice(0, 300))))));
      replace(results, h("div.line", {}, h("h2", { role: "status" }, plural(found.matches, "match", "matches") + (found.limited ? " shown; there are more" : "")), h("span.grow"), button("Close", () => { results.hidden = true; }, ".quiet")),
        (found.notes || []).filter(n => !/with .*\(/.test(n)).map(n => h("p.hint", {}, n)), hits.length ? items : h("p.hint", {}, "No line matches. The pattern is an RE2 expression: escape . * ( ) [ ] to search for these characters."));
      if (hits.length) jump(0, false);
    } catch (e) {
      if (e.name !== "AbortError" && mine === job) replace(results, h("p.problem", {}, e.message));
    }
  }
  function jump(i, focus) {
    if (!hits.length) return;
    hit = (i + hits.length) % hits.length;
    goTo(byChars && hits[hit].offsets ? hits[hit].offsets[0] : hits[hit].line);
    const buttons = results.querySelectorAll(".hit");
    buttons.forEach((b, n) => b.toggleAttribute("aria-current", n === hit));
    if (buttons[hit]) buttons[hit].scrollIntoView({ block: "nearest" });
  }
  async function query(text) {
    if (!text) return;
    const mine = ++job;
    results.hidden = false;
    hits = [];
    replace(results, h("p.hint", {}, "Running jq …"));
    try {
      const found = await get(base + "/jq", { query: text }, abort.signal, parse);
      if (mine !== job) return;
      const out = found.results.map(r => JSON.stringify(r, null, 2)).join("\n");
      replace(results, h("div.line", {}, h("h2", { role: "status" }, plural(found.results.length, "value") + (found.limited ? " shown; there are more" : "")), h("span.grow"), button("Close", () => { results.hidden = true; }, ".quiet")), h("pre.result", { tabindex: "0" }, out.slice(0, 60000)));
    } catch (e) {
      if (e.name !== "AbortError" && mine === job) replace(results, h("p.problem", {}, e.message));
    }
  }
  keys = e => {
    if (e.key === "n") { jump(hit + 1); e.preventDefault(); }
    if (e.key === "N") { jump(hit - 1); e.preventDefault(); }
  };
  start();
  return () => { abort.abort(); clearTimeout(settle); keys = null; if (scroller) scroller.destroy(); scroller = null; };
}

export default { name: "artifacts", title: "Artifacts", key: "a", show, keydown: e => keys && keys(e), scroller: () => keys ? null : scroller };
