// Conversations: the log of each session, and a box to talk to the agent.
import { h, add, replace, parse, chip, time, duration, count, plural, empty, button, path, visible, loading, asked } from "../dom.js";
import { get, post } from "../api.js";
import { onFrame } from "../live.js";
import { act, confirm } from "../feedback.js";
import { card } from "./approvals.js";
import { trace } from "./trace.js";

let select = null, model = "", begun = "";
const maxEntries = 600;
const ofSubagent = /-t\d+-\d+$/; // a run that is a call of another one has a conversation of its own

function show(main, parts, state) {
  const list = h("ul.list.compact", { "aria-label": "Conversations, newest first" });
  let text = "", wait = 0, children = false;
  const search = h("input", { type: "search", placeholder: "Words in a message, or a session", "aria-label": "Search in conversations", "data-search": true, spellcheck: "false",
    oninput: e => { text = e.target.value.trim(); clearTimeout(wait); wait = setTimeout(() => { replace(list, loading()); reload(false); }, 250); } });
  const detail = h("section.detail.talk", { "aria-label": "One conversation" });
  const start = state.readOnly ? null : h("a.button", { href: "#/conversations/new" }, "New conversation");
  add(main, h("div.split.reading", {}, h("section.master", {}, h("div.line.title", {}, h("h1", {}, "Conversations"), h("span.grow"), start), h("div.filters", {}, search, h("label.check", {}, h("input", { type: "checkbox", onchange: e => { children = e.target.checked; draw(); } }), "Sub-agents")), h("div.scroll", {}, list)), detail));
  const abort = new AbortController();
  let next = 0, drawn = [], loaded = false;
  async function reload(older) {
    const wanted = text;
    try {
      const page = await get("/api/sessions", { text, before: older ? next : 0 }, abort.signal);
      if (text !== wanted) return;
      drawn = older ? drawn.concat(page.sessions.filter(s => !drawn.some(d => d.session === s.session))) : page.sessions;
      next = page.next || 0;
      loaded = true;
      draw();
    } catch (e) { if (e.name !== "AbortError") replace(list, h("li.problem", {}, e.message)); }
  }
  function draw() {
    if (!loaded) return replace(list, loading());
    const more = next ? h("li.more", {}, button(text ? "Search in older ones" : "Show older", () => reload(true), ".quiet")) : null;
    const shown = drawn.filter(s => children || text || !s.parent || s.session === open);
    if (drawn.length === 0 && text) return replace(list, h("li.none", {}, empty(next ? "Not found in the newest messages" : "No conversation has these words")), more);
    if (drawn.length === 0) return replace(list, h("li.none", {}, empty("No conversation yet", "Start a worker with a model, then write to the agent here or in a terminal:", "stevedore up --model anthropic:MODEL\nstevedore agent \"say hello\"")));
    replace(list, shown.map(s => h("li", { "data-row": true }, h("a.entry", { href: "#/conversations/" + path(s.session), "aria-current": s.session === open ? "true" : null },
      h("span.line", {}, h("b.text", {}, s.title || s.name), h("span.grow"), h("span.num.ago", {}, time(s.at))),
      h("span.line.small", {}, s.state === "done" || s.state === "none" ? null : chip(s.state), h("span.name", {}, s.name), h("span.grow"), s.output_tokens ? h("span.num", {}, count(s.input_tokens + s.output_tokens) + " tokens") : null),
      s.match ? h("span.text.small", {}, s.match) : null))),
      more);
  }

  let open = "", leave = () => {};
  select = parts => {
    leave();
    leave = () => {};
    open = parts[0] || "";
    main.firstChild.classList.toggle("open", parts.length >= 1);
    main.firstChild.classList.toggle("whole", parts[1] === "trace");
    detail.classList.toggle("talk", parts[1] !== "trace");
    if (parts[1] === "trace") leave = trace(detail, open, parts[2] || "", parts[3]);
    else if (open === "new") {
      const name = "page-" + Array.from(crypto.getRandomValues(new Uint8Array(5)), b => b.toString(16).padStart(2, "0")).join("");
      leave = transcript(detail, name, state, true);
    } else if (open) leave = transcript(detail, open, state, false);
    else replace(detail, h("p.hint.center", {}, "Choose a conversation to read it" + (state.readOnly ? "." : ", or start one.")));
    draw();
  };
  let due = false;
  const stop = onFrame(frame => { if ((frame.sessions || []).length) due = true; }, () => { due = true; });
  const timer = setInterval(() => { if (due && !document.hidden && !text) { due = false; reload(false); } }, 2000);
  reload(false).then(() => select && draw());
  select(parts);
  return () => { stop(); clearInterval(timer); abort.abort(); leave(); select = null; };
}

// transcript shows one conversation and follows it.
function transcript(root, session, state, fresh) {
  const abort = new AbortController();
  const log = h("div.log", { role: "log", "aria-label": "Messages", tabindex: "0" });
  const entries = h("div"), typing = h("div"), older = h("div.more");
  const asks = h("ul.list");
  log.append(older, entries, typing, asks);
  const name = fresh ? null : h("span.name", {}, session);
  const heading = h("h1", {}, fresh ? "New conversation" : session);
  if (!fresh) replace(entries, loading("div"));
  let last = 0, next = 0, shown = 0;
  const stored = new Map(); // by run: the turns whose words and results are shown
  const atEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < 80;
  const toEnd = () => { log.scrollTop = log.scrollHeight; };

  async function loadOlder(e) {
    e.target.disabled = true;
    const page = await act("", () => get("/api/sessions/" + path(session), { before: next }, abort.signal, parse));
    e.target.disabled = false;
    if (!page) return;
    const height = log.scrollHeight;
    const before = h("div");
    for (const e of page.entries.reverse()) gather(before, draw(session, e.entry, e.styled));
    entries.prepend(...before.childNodes);
    shown += page.entries.length;
    next = page.next || 0;
    drawOlder();
    log.scrollTop += log.scrollHeight - height;
  }
  function drawOlder() {
    replace(older, !next ? null : shown < maxEntries ? button("Show earlier messages", loadOlder, ".quiet") : h("p.hint", {}, "To read earlier messages: stevedore sessions show " + session));
  }
  // One request at a time: two would both add the same entries.
  let following = false, again = false;
  async function follow() {
    again = true;
    if (following) return;
    following = true;
    while (again) { again = false; await addEntries(); }
    following = false;
  }
  async function addEntries() {
    try {
      const page = await get("/api/sessions/" + path(session), { after: last }, abort.signal, parse);
      const stay = !atEnd() && last > 0;
      if (page.title) heading.textContent = visible(page.title);
      if (page.name && name) name.textContent = visible(page.name);
      if (last === 0) { entries.replaceChildren(); next = page.next || 0; }
      for (const e of page.entries.reverse()) {
        gather(entries, draw(session, e.entry, e.styled));
        last = e.sequence;
        shown++;
        const kind = e.entry.kind, run = e.entry.run;
        if (kind === "user" && e.entry.grant) used = e.entry.grant.model || "";
        if (kind === "user" || kind === "end") stored.set(run, { words: 0, results: kind === "end" ? Infinity : 0, open: 0, whole: true });
        const have = stored.get(run) || { words: 0, results: 0, open: 0 };
        stored.set(run, have);
        if (kind === "assistant" || kind === "end") typing.replaceChildren();
        if (kind === "assistant") { // its calls run until their results are stored
          turn = ++have.words;
          const calls = uses(e.entry);
          have.open = calls.length;
          // Without its first turns, or if its ids are hashes, only the events of a run name its calls.
          calls.map((b, i) => [run + "-t" + turn + "-" + i, b]).filter(([id]) => have.whole && isToken.test(id))
            .forEach(([id, b]) => working(id, b.name, JSON.stringify(b.input || {})));
        }
        if (kind === "results") { // of some of the calls, if others wait for long
          const answers = e.entry.answers || [];
          answers.forEach(r => finished(r.call));
          have.open -= answers.length;
          if (have.open <= 0) { have.results = have.words; typing.replaceChildren(); }
        }
      }
      if (last === 0) replace(entries, fresh ? h("p.hint.center", {}, "Write the first message.") : empty("This session has no conversation", "Its calls were made by a program, not by an agent. See them in Calls."));
      drawOlder();
      preselect();
      if (!stay) toEnd();
    } catch (e) { if (e.name !== "AbortError") replace(entries, h("p.problem", {}, e.message)); }
  }

  // What the model writes arrives in pieces before its message is stored. Pieces that come
  // later belong to a message that is shown already.
  let turn = 0, text = "";
  const ended = new Set(); // the ids of calls
  const busy = call => [...typing.querySelectorAll("[data-busy]")].find(el => el.dataset.busy === call);
  function working(call, tool, args) {
    if (!ended.has(call) && !busy(call)) typing.append(h("p.event", { "data-busy": call }, h("span.load.run.busy"), " " + tool + " " + asked(args)));
  }
  function finished(call) {
    ended.add(call);
    const el = busy(call);
    if (el) el.remove();
  }
  function activity(run, list) {
    const stay = !atEnd(), have = stored.get(run) || { words: 0, results: 0 };
    for (const a of list) {
      if (a.turn <= (a.type === "text" ? Math.max(have.words, have.results) : have.results)) continue;
      if (a.turn !== turn) { turn = a.turn; text = ""; typing.replaceChildren(); }
      if (a.type === "text") {
        text = [...text].slice(0, a.offset || 0).join("") + (a.text || "");
        let bubble = typing.querySelector(".words");
        if (!bubble) typing.append(h("div.message.assistant", {}, h("p.who", {}, "agent"), bubble = h("div.words")));
        bubble.textContent = visible(text);
      } else if (a.type === "tool_start") working(a.call || a.tool, a.tool, a.args);
      else if (a.type === "waiting") typing.append(h("p.event", {}, a.text));
      else if (a.type === "tool_end") {
        finished(a.call || a.tool);
        typing.append(h("p.event", {}, a.tool + " ", chip(a.outcome), " " + duration(a.duration_ms || 0) + " " + (a.text || "")));
      }
    }
    if (!stay) toEnd();
  }
  // A call of this conversation may wait for an approval.
  async function askAgain() {
    try {
      const waiting = (await get("/api/approvals", {}, abort.signal, parse)).approvals.filter(a => a.session === session);
      if (waiting.length || asks.firstChild) replace(asks, waiting.map(a => card(a, state, askAgain)));
      if (waiting.length) toEnd();
    } catch { /* the view of approvals tells it */ }
  }
  askAgain();
  const stop = onFrame(frame => {
    if (frame.approvals) askAgain();
    if ((frame.sessions || []).includes(session)) follow();
    for (const [key, p] of Object.entries(frame.progress || {})) if (key.startsWith(session + ".") && p.activity && !ofSubagent.test(key)) activity(key.slice(session.length + 1), p.activity);
  }, follow);

  const box = h("textarea", { rows: "2", placeholder: "Message to the agent", "aria-label": "Message to the agent", "data-search": true,
    onkeydown: e => { if (e.key === "Enter" && !e.shiftKey && !e.isComposing) { e.preventDefault(); send(); } } });
  const notice = h("p.hint", { role: "status" });
  // The model of the last run answers again, unless the reader chooses another one.
  let used = begun === session ? model : "", chosen = false;
  const models = h("select", { "aria-label": "Model", hidden: true, onchange: () => { chosen = true; } });
  function preselect() {
    const names = [...models.options].map(o => o.value);
    if (!chosen) models.value = names.includes(used) ? used : names[0] || "";
  }
  get("/api/status", {}, abort.signal).then(s => {
    const names = [...new Set(s.workers.flatMap(w => w.models || []))];
    models.hidden = names.length < 2;
    replace(models, names.map(value => h("option", { value }, value)));
    preselect();
  }, () => { /* the default model answers */ });
  let id = 0, tried = ""; // a message whose answer was lost has its id when it is sent again
  async function send() {
    const prompt = box.value, what = models.value + " " + prompt;
    const go = composer.querySelector("button");
    if (!prompt.trim() || go.disabled) return;
    if (what !== tried) [id, tried] = [crypto.getRandomValues(new Uint32Array(4)).join("-"), what];
    go.disabled = true;
    const answer = await act("", () => post("/api/sessions/" + path(session) + "/messages", { prompt, model: models.value, id }));
    go.disabled = false;
    if (!answer) return;
    box.value = tried = "";
    replace(notice, answer.warning || "");
    if (fresh) { begun = answer.session; model = models.value; location.replace("#/conversations/" + path(answer.session)); } // it has a name and a trace now
    else follow();
  }
  async function remove() {
    if (!await confirm("Delete this conversation and those of its sub-agents for good? Its calls and artifacts stay until they expire.", "Delete")) return;
    if (await act("Deleted.", async () => { await post("/api/sessions/" + path(session) + "/remove"); return true; })) location.hash = "#/conversations";
  }
  const composer = state.readOnly ? h("p.hint", {}, "This page is read-only.") : h("div.composer", {}, box, models, button("Send", send));
  replace(root, h("a.back", { href: "#/conversations", "data-back": true }, "← All conversations"),
    h("div.line.title", {}, heading, name, h("span.grow"), button("Wide", e => { e.target.setAttribute("aria-pressed", root.parentElement.classList.toggle("whole")); }, ".quiet.widen"), fresh ? null : h("a.quiet.button", { href: "#/conversations/" + path(session, "trace") }, "Trace"),
      h("a.quiet.button", { href: "#/artifacts/" + path(session) }, "Artifacts"),
      fresh || state.readOnly ? null : button("Delete", remove, ".quiet")), log, notice, composer);
  follow();
  if (fresh || begun === session) { box.focus(); begun = ""; }
  return () => { stop(); abort.abort(); };
}

const block = (who, cls, at, ...body) => h("div.message." + cls, {}, h("p.who.line", {}, who, h("span.grow"), at ? h("span.num", {}, time(at)) : null), body);

// gather adds the elements of an entry. What only keeps the books, such as calls and results that
// went well, is one quiet line for all of it between two messages.
function gather(into, elements) {
  for (const el of elements) {
    const last = into.lastElementChild;
    if (!el.matches(".event")) { into.append(el); continue; }
    const books = last && last.matches(".books") ? last : h("details.books", {}, h("summary"));
    if (books !== last) into.append(books);
    books.append(el);
    const calls = [...books.querySelectorAll("[data-call]")].map(c => c.dataset.call), end = books.querySelector(".end");
    replace(books.firstChild, h("span.text", {}, calls.length ? [...new Set(calls)].join(", ") : end ? "" : books.lastChild.textContent.slice(0, 80)), h("span.grow"),
      h("span.num", {}, [calls.length ? plural(calls.length, "call") : null, end ? end.dataset.used : null].filter(Boolean).join(" · ")));
  }
}


// runs returns a text with its styles. No link leaves this page, so a link shows its address.
const isBlock = run => !!run && (run.styles || []).includes("block");
const runs = list => list.map((run, i) => {
  let text = run.text; // the margins of a block replace the empty lines around it
  if (isBlock(list[i - 1])) text = text.replace(/^\n+/, "");
  if (isBlock(list[i + 1])) text = text.replace(/\n+$/, "");
  const address = run.url && !text.includes(run.url) ? " (" + run.url + ")" : "";
  return h("span" + (run.styles || []).map(style => ".md-" + style).join(""), {}, text + address);
});

// isToken matches the ids that are the same in subjects and in logs (tools.Token).
const isToken = /^(?!-|h_)[\w-]{1,64}$/i;

// uses returns the calls that an entry asks for.
const uses = e => ((e.message && e.message.content) || []).filter(b => b.type === "tool_use");

// draw returns the elements of one entry. The server has parsed the Markdown of a model's texts.
function draw(session, e, styled = []) {
  const out = [];
  switch (e.kind) {
    case "user":
    case "assistant": {
      const user = e.kind === "user";
      const content = (e.message && e.message.content) || [];
      const words = content.filter(b => b.type === "text" && b.text).map((b, i) => h("div.words", {}, styled[i] ? runs(styled[i]) : b.text));
      if (words.length) out.push(block(user ? "user" : "agent" + (e.model ? " · " + e.model : ""), user ? "user" : "assistant", e.at, words));
      for (const b of content) {
        if (b.type === "tool_use") out.push(h("details.event", { "data-call": b.name || "?" }, h("summary", {}, "calls ", h("b", {}, b.name || "?"), " ", h("span.id", {}, asked(JSON.stringify(b.input || {})).slice(0, 200))), h("pre.result", {}, JSON.stringify(b.input, null, 2) || "")));
        else if (b.type !== "text") out.push(h("p.event", {}, String(b.type)));
      }
      break;
    }
    case "results":
      for (const r of e.answers || []) {
        out.push(h("details.event", {}, h("summary", {}, "result of ", h("b", {}, r.tool), " ", chip(r.outcome), " ", r.artifact ? h("span.tag", {}, count(r.artifact.tokens) + " tokens offloaded") : null),
          h("pre.result", {}, (r.for_llm || "").slice(0, 20000)),
          h("p.hint", {}, h("a", { href: "#/calls/" + path(session, r.call) }, "the call"), " ", r.artifact ? h("a", { href: "#/artifacts/" + path(session, r.artifact.artifact_id) }, "the whole result") : null)));
      }
      break;
    case "shelved": out.push(h("p.event", {}, plural(Object.keys(e.shelved || {}).length, "result") + " moved out of the history")); break;
    case "compacted": out.push(h("details.event", {}, h("summary", {}, plural((e.compaction || {}).turns || 0, "turn") + " replaced by a summary"), h("pre.result", {}, (e.compaction || {}).summary || ""))); break;
    case "notice": out.push(h("details.event", {}, h("summary", {}, (e.notice || {}).title || "notice"), h("pre.result", {}, (e.notice || {}).text || ""))); break;
    case "resumed": out.push(h("p.event", {}, "continued")); break;
    case "end": {
      const end = e.end || {};
      const usage = end.usage || {};
      const used = plural(end.turns || 0, "turn") + ", " + count((usage.input_tokens || 0) + (usage.output_tokens || 0)) + " tokens";
      out.push(h("p.event.end", { "data-used": used }, chip(end.reason || "end"), " ", used + " ",
        e.run ? h("a", { href: "#/conversations/" + path(session, "trace", e.run) }, "the trace of this run") : null),
        ...(end.error ? [h("p.problem", {}, end.error.message)] : []));
      break;
    }
    default: out.push(h("p.event", {}, String(e.kind || "unreadable entry")));
  }
  return out;
}

export default { name: "conversations", title: "Conversations", key: "v", show, update: parts => { if (select) select(parts); return !!select; } };
