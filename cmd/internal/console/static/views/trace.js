// The trace of a run: its turns, calls, sub-agents and approvals on one axis of time.
import { h, add, replace, chip, kindOf, load, absolute, duration, count, plural, empty, path, loading, asked } from "../dom.js";
import { get } from "../api.js";
import { onFrame } from "../live.js";
import { pretty } from "./approvals.js";
import { turn } from "./turn.js";

const bars = { turn: "run", approval: "warn", wait: "off", queue: "off", summary: "off" };
const barOf = s => bars[s.kind] || kindOf(s.state || "running");
const titles = { approval: "approval", wait: "waits for the model", queue: "waits for the run before", summary: "summary of old turns", turn: "the model" };
const start = s => Date.parse(s.at);
const end = s => (s.ended_at ? Date.parse(s.ended_at) : Date.now());
const took = s => duration(end(s) - start(s));
const steps = s => s.steps || [];
const all = s => [s, ...steps(s).flatMap(all)];
const tokens = s => (s.usage ? s.usage.input_tokens + s.usage.output_tokens : 0);
const cost = s => (s.usage && s.usage.cost ? " · cost " + s.usage.cost.toFixed(4) : "");
const fails = s => s.kind === "call" && kindOf(s.state || "") === "bad";
// about says what a step is about, and why it failed.
const about = s => [asked(s.args_excerpt), fails(s) ? (s.text || "").split("\n")[0].slice(0, 200) : ""].filter(Boolean).join(": ");
const waits = s => ["approval", "wait", "queue"].includes(s.kind);

// chain adds to a set the steps that a run waited for, one after the other: what is faster
// elsewhere does not shorten the run.
function chain(s, slow) {
  let until = end(s) + 1;
  for (const step of steps(s).toSorted((a, b) => end(b) - end(a))) {
    if (end(step) > until) continue;
    slow.add(step);
    chain(step, slow);
    until = start(step) + 1;
  }
  return slow;
}

// ticks are four to ten round times of an axis of a length in ms.
const round = [1, 10, 100, 1000].flatMap(n => [n, 2 * n, 5 * n]).concat([10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200].map(s => s * 1000));
function ticks(length) {
  const day = 86400000, step = length > 8 * day ? day * Math.ceil(length / day / 8) : round.findLast(n => length / n >= 4) || 1;
  return Array.from({ length: Math.floor(length / step) + 1 }, (_, i) => i * step);
}

// fit hides the times of an axis for which it has no space.
const fit = new ResizeObserver(axes => {
  for (const { target } of axes) {
    let free = 0;
    for (const label of target.children) {
      label.hidden = false;
      const box = label.getBoundingClientRect();
      label.hidden = box.left < free;
      if (!label.hidden) free = box.right + 4;
    }
  }
});

// matches are the filters of steps.
const matches = {
  "": ["All steps", () => true],
  bad: ["Failed", s => ["bad", "warn"].includes(kindOf(s.state || ""))],
  slow: ["Slower than 1 s", s => end(s) - start(s) > 1000],
  dear: ["With a cost", s => s.usage && s.usage.cost > 0],
  waits: ["Waits", waits],
};

// trace shows a run of a conversation, the last one if run is "", and beside it another one, if other
// names it.
export function trace(root, session, run, other) {
  const panes = h("div.panes", {});
  replace(root, h("a.back", { href: "#/conversations/" + path(session), "data-back": true }, "← The conversation"), h("div.line.title", {}, h("h1", {}, "Trace"), h("span.id", {}, session)), panes);
  const go = (first, second) => { location.hash = "#/conversations/" + path(session, "trace", first, ...(second ? [second] : [])); };
  const leave = [pane(add(panes, h("div")).lastChild, session, run, id => go(id, other), other ? null : (id, second) => go(id, second))];
  if (other) leave.push(pane(add(panes, h("div")).lastChild, session, other, id => go(run, id), null));
  return () => leave.forEach(f => f());
}

// pane shows one run and follows it. choose opens another run, and compare, if it is not null,
// one beside it.
function pane(root, session, run, choose, compare) {
  const abort = new AbortController();
  const body = h("div"), opened = new Set(), places = new WeakMap(), turns = new Map();
  let words = "", kind = "", drawSteps = () => {};
  const runs = h("span.line"), shownSteps = h("div");
  const find = h("input", { type: "search", "data-search": true, spellcheck: "false", "aria-label": "Filter the steps", placeholder: "Tool, argument or outcome", oninput: e => { words = e.target.value.trim().toLowerCase(); drawSteps(); } });
  const which = h("select", { "aria-label": "Which steps", onchange: e => { kind = e.target.value; drawSteps(); } }, Object.entries(matches).map(([value, [text]]) => h("option", { value }, text)));
  const wanted = s => matches[kind][1](s) && (!words || [s.name, s.args_excerpt, s.text, s.state, s.kind].join(" ").toLowerCase().includes(words));
  let shown = "", due = true, busy = false, follows = new Set([session]);
  async function reload() {
    if (busy || !due || document.hidden) return;
    busy = true;
    due = false;
    try {
      const t = await get("/api/sessions/" + path(session) + "/trace", { run }, abort.signal);
      const text = JSON.stringify(t);
      follows = new Set([session, ...all(t.run).map(s => s.conversation)]);
      if (text !== shown || !t.run.ended_at && !root.contains(document.activeElement)) draw(t);
      shown = text;
      due = due || !t.run.ended_at;
    } catch (e) {
      if (e.code === "not_found") replace(body, empty("No run", "This session has no run with this name, or its conversation was deleted."));
      else if (e.name !== "AbortError") { due = true; if (!shown) replace(body, h("p.problem", {}, e.message)); }
    }
    busy = false;
  }
  function draw(t) {
    const focus = body.contains(document.activeElement) && (document.activeElement.closest("[data-key]") || {}).dataset;
    const option = r => h("option", { value: r.id }, absolute(r.at) + "  " + (r.text || r.id).slice(0, 60));
    const select = h("select", { "aria-label": "Run", onchange: e => choose(e.target.value) }, t.runs.toReversed().map(option));
    select.value = t.run.id;
    const beside = compare && h("select", { "aria-label": "Compare with", onchange: e => compare(t.run.id, e.target.value) }, h("option", { value: "" }, "Compare with …"),
      t.runs.toReversed().filter(r => r.id !== t.run.id).map(option));
    const parts = all(t.run), axis = { from: start(t.run), length: Math.max(1, ...parts.map(end).map(at => at - start(t.run))) };
    const slow = chain(t.run, new Set()), leaves = parts.filter(s => !steps(s).length && s !== t.run);
    const worked = leaves.filter(s => !waits(s)), most = (f, of = worked) => of.reduce((best, s) => (f(s) > f(best || s) || !best ? s : best), null);
    Object.assign(axis, { slow, slowest: worked.length > 1 && most(s => end(s) - start(s)), dearest: parts.some(s => s.usage && s.usage.cost) && most(s => (s.usage && s.usage.cost) || 0, parts.filter(s => s !== t.run)) });
    const failed = leaves.find(fails) || parts.find(fails);
    const jumps = [["Slowest", axis.slowest, took], ["Dearest", axis.dearest, s => cost(s).slice(3)], ["First failure", failed, s => about(s) || s.state]].filter(([, s]) => s);
    const n = kind => parts.filter(s => s.kind === kind);
    let waited = 0, until = 0; // approvals may wait at the same time
    for (const s of n("approval").sort((a, b) => start(a) - start(b))) { waited += Math.max(0, end(s) - Math.max(start(s), until)); until = Math.max(until, end(s)); }
    drawSteps = () => replace(shownSteps, list(t.run, "", 0, axis), parts.some(s => s !== t.run && wanted(s)) ? null : h("p.hint", {}, "No step matches."));
    drawSteps();
    replace(runs, t.runs.length > 1 ? [select, beside] : null);
    replace(body,
      h("p.lead", {}, chip(t.run.state || "running"), " " + [took(t.run), plural(n("turn").length, "turn"), plural(n("call").length, "call"), plural(n("call").filter(s => s.conversation).length, "sub-agent"),
        waited ? plural(n("approval").length, "approval") + " waited " + duration(waited) : null, count(tokens(t.run)) + " tokens" + (t.run.usage && t.run.usage.cost ? ", cost " + t.run.usage.cost.toFixed(4) : "")].filter(Boolean).join(", ")),
      t.run.text ? h("p.words", {}, t.run.text) : null,
      jumps.length ? h("div.line.wrap.jumps", {}, jumps.map(([name, s, told]) => h("button", { type: "button", onclick: () => reveal(s) }, h("span.text", {}, name + ": " + (s.name || titles[s.kind] || s.kind) + ", " + told(s))))) : null,
      h("p.hint", {}, "The chain of steps that the run waited for has a line at its left. Hatched: waiting for a worker, an approval or the provider." + (axis.dearest ? " Cost is in the currency of --price." : "")),
      h("div.axis", { "aria-hidden": "true" }, ticks(axis.length).filter(at => at < .93 * axis.length).map(at => h("span", { style: { "--at": at / axis.length } }, at ? duration(at).replace(/ 0 (s|min)$/, "") : "0"))),
      shownSteps, t.cut ? h("p.problem", {}, "The run has more steps than this page shows. See its conversation for all.") : null);
    fit.observe(body.querySelector(".axis"));
    const again = focus && [...body.querySelectorAll("[data-key]")].find(el => el.dataset.key === focus.key);
    if (again) again.querySelector("summary").focus({ preventScroll: true });
  }
  // reveal opens a step and moves the focus to it, whatever the filters are.
  function reveal(s) {
    find.value = words = which.value = kind = "";
    drawSteps();
    const at = places.get(s);
    at.querySelector("details").open = true;
    at.scrollIntoView({ block: "center" });
    at.querySelector("summary").focus({ preventScroll: true });
  }
  // pageOf is the request and the answer of a turn. It stays if the steps are drawn again.
  function pageOf(s) {
    const key = s.session + "." + s.id + "." + s.turn;
    if (!turns.has(key)) turns.set(key, turn(s, session, abort.signal));
    return turns.get(key);
  }
  const list = (s, key, depth, axis) => h("ol.steps", { "aria-label": key ? "Steps of the sub-agent" : "Steps of the run" }, steps(s).map((step, i) => all(step).some(wanted) && row(step, key + "." + i, depth, axis)));
  function row(s, key, depth, axis) {
    const bar = load((end(s) - start(s)) / axis.length, barOf(s));
    bar.style.setProperty("--from", Math.max(0, (start(s) - axis.from) / axis.length));
    const part = (end(s) - start(s)) / axis.length, idle = waits(s) ? 1 : s.ran_ms && !steps(s).length ? 1 - Math.min(1, s.ran_ms / Math.max(1, end(s) - start(s))) : 0;
    bar.style.setProperty("--idle", idle * part);
    const mark = s === axis.slowest ? "slowest" : s === axis.dearest ? "dearest" : "";
    const details = h("details", { open: opened.has(key), ontoggle: e => { if (e.target.open) opened.add(key); else opened.delete(key); } },
      h("summary", {}, h("div.label", {},
        h("div.line", {}, chip(s.kind === "call" || s.kind === "approval" ? s.state || "running" : s.kind), h("b", {}, s.kind === "approval" ? titles.approval : s.name || titles[s.kind] || s.kind), h("span.grow"), mark && h("span.tag", {}, s === axis.slowest && s === axis.dearest ? "slowest and dearest" : mark), h("span.num" + (part > .2 ? ".heavy" : ""), {}, took(s))),
        h("div.line.small", {}, h("span.text" + (fails(s) ? ".bad" : ""), {}, about(s) || s.text || (s.kind === "approval" && s.name ? "by " + s.name : "")), h("span.grow"), tokens(s) ? h("span.num", {}, count(tokens(s)) + " tokens" + cost(s)) : null)), bar),
      more(s));
    const el = h("li.step" + (axis.slow.has(s) ? ".slow" : ""), { "data-row": true, "data-key": key, style: { "--depth": depth } }, details, steps(s).length ? list(s, key, depth + 1, axis) : null);
    places.set(s, el);
    return el;
  }
  function more(s) {
    const u = s.usage || {};
    const facts = [["Began", absolute(s.at)], ["Took", took(s)], ["Tool ran for", s.ran_ms && duration(s.ran_ms)], ["Answered by", s.kind === "approval" && s.name],
      ["Input tokens", u.input_tokens && count(u.input_tokens)], ["Of them cached", u.cached_input_tokens && count(u.cached_input_tokens)], ["Output tokens", u.output_tokens && count(u.output_tokens)], ["Cost", u.cost && u.cost.toFixed(6)]];
    return h("div.more", {}, h("dl.facts", {}, facts.filter(f => f[1]).map(([k, v]) => h("div", {}, h("dt", {}, k), h("dd", {}, v)))),
      s.args_excerpt ? [h("h2", {}, "Arguments"), h("pre.result", { tabindex: "0", "aria-label": "Arguments" }, pretty(s.args_excerpt))] : null,
      s.text ? [h("h2", {}, "Text"), h("pre.result", { tabindex: "0", "aria-label": "Text" }, s.text)] : null,
      s.turn ? pageOf(s) : null,
      s.kind === "call" ? h("p.line.small", {}, h("a", { href: "#/calls/" + path(s.session, s.id) }, "the call"), s.artifact ? h("a", { href: "#/artifacts/" + path(s.session, s.artifact.artifact_id) }, "the whole result") : null,
        s.conversation ? h("a", { href: "#/conversations/" + path(s.conversation) }, "the conversation of the sub-agent") : null) : null);
  }
  replace(root, h("div.filters", {}, runs, find, which), body);
  replace(body, loading("div"));
  const stop = onFrame(frame => { if ((frame.sessions || []).some(s => follows.has(s)) || frame.approvals) due = true; }, () => { due = true; });
  const timer = setInterval(reload, 2000);
  reload();
  return () => { stop(); clearInterval(timer); abort.abort(); };
}
