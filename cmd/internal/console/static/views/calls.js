// Calls: all that have ended, newest first, and one call in detail.
import { h, add, replace, chip, time, absolute, duration, button, empty, load, path, bytes, count, plural, fraction, percent, sizeBar, sizeScale } from "../dom.js";
import { get, post } from "../api.js";
import { onFrame } from "../live.js";
import { Scroller } from "../scroller.js";
import { act } from "../feedback.js";
import { called } from "./now.js";
import { pretty } from "./approvals.js";

const pageSize = 100, rowHeight = 44;
const outcomes = ["completed", "failed", "unknown", "timeout", "cancelled", "async"];
let scroller = null, detail = null, select = () => {}, suffix = () => "";

function show(main, parts, state) {
  const filter = {};
  for (const name of ["session", "tool", "text", "outcome", "last"]) filter[name] = state.query.get(name) || "";
  // The filters are in the URL, also in those of calls.
  suffix = () => {
    const query = new URLSearchParams(Object.entries(filter).filter(([name, value]) => name !== "timer" && value)).toString();
    return query ? "?" + query : "";
  };
  const apply = () => { history.replaceState(null, "", location.hash.split("?")[0] + suffix()); reset(); };
  let items = [], seen = new Set(), next = 0, loading = null, ended = false;
  const box = h("div.scroll");
  const note = h("p.hint", { role: "status" });
  const field = (name, label) => h("input", { type: "search", placeholder: label, "aria-label": label, "data-search": name === "session", spellcheck: "false", value: filter[name],
    oninput: e => { filter[name] = e.target.value.trim(); clearTimeout(filter.timer); filter.timer = setTimeout(apply, 250); } });
  const choice = (name, label, options) => {
    const el = h("select", { "aria-label": label, onchange: e => { filter[name] = e.target.value; apply(); } }, options.map(([value, text]) => h("option", { value }, text)));
    el.value = filter[name];
    return el;
  };
  const outcome = choice("outcome", "Outcome", [["", "any outcome"], ...outcomes.map(o => [o, o])]);
  const last = choice("last", "Time", [["", "any time"], ["600", "last 10 minutes"], ["3600", "last hour"], ["86400", "last day"], ["604800", "last 7 days"]]);
  const list = h("section.master", {}, h("h1", {}, "Calls"), h("div.filters", {}, field("session", "Session"), field("tool", "Tool"), field("text", "Text in it"), outcome, last), note, box);
  detail = h("section.detail", { "aria-label": "One call" });
  add(main, h("div.split", {}, list, detail));

  scroller = new Scroller(box, {
    height: rowHeight, label: "Calls that ended, newest first",
    row: i => {
      const e = items[i];
      return h("div", {}, h("a.line", { href: "#/calls/" + path(e.session, e.id) + suffix() },
        called(e), h("span.grow"),
        e.artifact ? h("span.tag", {}, bytes(e.artifact.size)) : null, h("span.num", {}, duration(e.duration_ms)), h("span.num.ago", {}, time(e.stored_at))));
    },
    range: (first, last) => { if (last > items.length - pageSize / 2 && !ended) more(); },
  });

  let abort = new AbortController();
  const params = before => ({ session: filter.session, tool: filter.tool, text: filter.text, outcome: filter.outcome, last: filter.last, limit: pageSize, before });
  function take(page) {
    for (const e of page.calls) {
      const key = e.session + "." + e.id;
      if (seen.has(key)) continue; // the start of an async call that has ended
      seen.add(key);
      items.push(e);
    }
    next = page.next || 0;
    ended = !next;
  }
  async function more() {
    if (loading || ended) return;
    loading = get("/api/calls", params(next), abort.signal);
    try {
      take(await loading);
      loading = null;
      scroller.setCount(items.length);
      tell();
      if (!ended && items.length < pageSize / 2) more();
    } catch (e) {
      loading = null;
      if (e.name !== "AbortError") { ended = true; replace(note, e.message + " ", button("Try again", reset, ".quiet")); }
    }
  }
  function tell() {
    const old = box.querySelector(".empty");
    if (old) old.remove();
    const filtered = filter.session || filter.tool || filter.text || filter.outcome || filter.last;
    if (items.length === 0 && ended) {
      box.append(filtered ? empty("No call matches", "Change the filters above. The session and the tool must be exact; the text is a part of the session, the id, the arguments or the result.") : empty("No call has ended yet", "Each result appears here. Run the first call in a terminal:", "stevedore call list_dir path=."));
    }
    replace(note, items.length === 0 ? (ended ? "" : "Searching …") : ended ? plural(items.length, "call") : count(items.length) + " calls loaded; scroll for older ones");
  }
  function reset() {
    abort.abort();
    abort = new AbortController();
    items = []; seen = new Set(); next = 0; ended = false; loading = null;
    replace(note, "Loading …");
    const old = box.querySelector(".empty");
    if (old) old.remove();
    scroller.setCount(0);
    scroller.clear();
    more();
  }
  // At the top, new calls appear as they end. Further down, the rows stay.
  let due = false;
  const stop = onFrame(frame => { if (frame.count) due = true; }, () => { due = true; });
  const timer = setInterval(async () => {
    if (!due || loading || box.scrollTop > rowHeight || document.hidden) return;
    due = false;
    try {
      const page = await get("/api/calls", params(0), abort.signal);
      if (box.scrollTop > rowHeight || loading) return;
      if (filter.text) { // a search may have read far more than the newest page
        const loaded = items, at = [next, ended];
        items = [];
        take(page);
        items = items.concat(loaded);
        [next, ended] = at;
      } else {
        items = []; seen = new Set();
        take(page);
      }
      scroller.setCount(items.length);
      scroller.refresh();
      tell();
    } catch { /* the next frame tries again */ }
  }, 1000);

  let leaveDetail = () => {};
  select = parts => {
    leaveDetail();
    leaveDetail = () => {};
    main.firstChild.classList.toggle("open", parts.length >= 2);
    if (parts.length >= 2) leaveDetail = showCall(detail, parts[0], parts[1], state);
    else replace(detail, h("p.hint.center", {}, "Choose a call to see its result, attempts and timings."));
    for (const a of box.querySelectorAll("a.line")) a.toggleAttribute("aria-current", a.hash === location.hash);
  };
  select(parts);
  reset();
  return () => { stop(); clearInterval(timer); abort.abort(); leaveDetail(); scroller.destroy(); scroller = null; };
}

function showCall(root, session, id, state) {
  const abort = new AbortController();
  replace(root, h("p.hint", {}, "…"));
  let timer = null, shown = "";
  async function draw() {
    let d;
    try { d = await get("/api/calls/" + path(session, id), {}, abort.signal); } catch (e) {
      if (e.name !== "AbortError") replace(root, back(), h("p.problem", {}, e.message));
      return;
    }
    const text = JSON.stringify(d);
    if (text !== shown) replace(root, callDetail(d, state, draw));
    shown = text;
    if (!d.task.ended_at) timer = setTimeout(draw, 1500);
  }
  draw();
  return () => { clearTimeout(timer); abort.abort(); };
}

const back = () => h("a.back", { href: "#/calls" + suffix(), "data-back": true }, "← All calls");

function callDetail({ task, results }, state, reload) {
  const last = results[results.length - 1];
  const running = !task.ended_at;
  const facts = [["Session", h("a", { href: "#/conversations/" + path(task.session) }, task.session)], ["Call", task.id]];
  if (task.worker) facts.push(["Worker", task.worker]);
  if (last) facts.push(["Attempt", String(last.attempt || 1)]);
  if (task.queued_at) facts.push(["Queued", time(task.queued_at)]);
  if (task.started_at) facts.push(["Started", absolute(task.started_at)]);
  if (task.started_at && running) facts.push(["Running for", time(task.started_at, "since")]);
  if (task.ended_at) facts.push(["Ended", absolute(task.ended_at)], ["Duration", duration(new Date(task.ended_at) - new Date(task.started_at))]);
  if (last && last.channel) facts.push(["Channel", last.channel]);
  const p = task.progress || {};
  return [
    back(),
    h("div.line.title", {}, h("h1", {}, task.tool || "call"), chip(task.state), h("span.grow"),
      running && !state.readOnly ? button("Cancel", e => { e.target.disabled = true; act("Cancelled.", () => post("/api/calls/" + path(task.session, task.id) + "/cancel")).then(reload); }, ".danger") : null),
    running && task.state === "running" ? [load(fraction(p.done, p.total), p.total > 0 ? "run" : "run.busy"), h("p.hint", {}, (p.total > 0 ? percent(fraction(p.done, p.total)) + "  " : "") + (p.message || ""))] : null,
    task.message && !(last && last.for_llm) ? h("p.problem", {}, task.message) : null,
    h("dl.facts", {}, facts.map(([k, v]) => h("div", {}, h("dt", {}, k), h("dd", {}, v)))),
    task.args_excerpt ? [h("h2", {}, "Arguments"), h("pre.result", { tabindex: "0", "aria-label": "Arguments" }, pretty(task.args_excerpt))] : null,
    results.map(resultDetail),
  ];
}

function resultDetail(r) {
  const a = r.artifact;
  return h("article", {},
    h("h2", {}, r.outcome === "async" ? "Result: started in the background" : "Result"),
    a ? h("a.cargo", { href: "#/artifacts/" + path(r.session, a.artifact_id) },
      sizeBar(a.size), sizeScale(),
      h("span.line", {}, h("b", {}, "Open the whole result"), h("span.grow"), h("span", {}, bytes(a.size) + ", " + plural(a.lines, "line") + ", " + a.type)),
      h("span.line.small", {}, "About " + count(a.tokens) + " tokens. " + (a.inline ? "The model sees the whole text." : "The model sees only the text below."))) : null,
    r.for_llm ? h("pre.result", { tabindex: "0", "aria-label": "Text for the model" }, r.for_llm) : h("p.hint", {}, "The text is empty."),
    r.for_user && r.for_user !== r.for_llm ? [h("h2", {}, "For the user"), h("pre.result", { tabindex: "0" }, r.for_user)] : null);
}

export default { name: "calls", title: "Calls", key: "c", show, update: parts => { if (scroller) select(parts); return !!scroller; }, scroller: () => scroller };
