// Now: what runs at this moment, and what just ended.
import { h, replace, add, load, chip, kindOf, time, duration, button, empty, path, plural, count, problem, loading, asked, fraction, percent } from "../dom.js";
import { get, post } from "../api.js";
import { onFrame } from "../live.js";
import { act } from "../feedback.js";
import { chart, total } from "../chart.js";
import { selection } from "../select.js";

// called shows what a call was asked for, and why it failed.
export const called = e => [chip(e.outcome), h("b", {}, e.tool), h("span.text", { title: e.text }, asked(e.args_excerpt) || e.text),
  e.args_excerpt && !["completed", "async"].includes(e.outcome) ? h("span.text.bad", {}, e.text) : null];

const seconds = 60, maxRunning = 200, maxRecent = 40;

function show(main, parts, state) {
  const abort = new AbortController();
  const running = new Map(); // by session.id
  const quay = Array.from({ length: seconds }, () => ({ done: 0, bad: 0, wait: 0, off: 0 }));
  const recent = [];
  const summary = h("p.lead", { role: "status" }, "…");
  const problems = h("div.problems"), asks = h("div");
  const yard = chart(seconds);
  const list = h("ul.list", { "aria-label": "Running calls" });
  const ended = h("ul.list.compact", { "aria-label": "Calls that just ended" });
  // The filter and the selection are for cancelling several calls.
  let text = "";
  const matches = c => (c.tool + "\n" + c.session + "\n" + c.id).toLowerCase().includes(text);
  const filter = h("input", { type: "search", placeholder: "Tool, session or id", "aria-label": "Tool, session or id of a call", "data-search": true, spellcheck: "false",
    oninput: e => { text = e.target.value.trim().toLowerCase(); drawRunning(calls); refresh(); } });
  const picks = state.readOnly ? null : selection({ noun: "call", actions: [{ label: "Cancel", done: "cancelled", url: "/api/calls/cancel", danger: true }],
    named: keys => ({ calls: keys.map(key => { const [session, id] = key.split("."); return { session, id }; }) }), all: () => ({ all: true, text }), reload: () => reload() });
  const pick = (key, call) => picks && picks.box(key, (call.tool || "call") + " " + call.id);
  add(main, [
    h("h1", {}, "Now"), summary, asks, problems,
    h("section", {}, h("div.scale", {}, h("span", {}, "calls that ended, per second"), h("span", {}, "the last minute")), yard.el),
    h("section", {}, h("h2", {}, "Running"), picks && h("div.filters", {}, filter, picks.bar), list),
    h("section", {}, h("h2", {}, "Just ended"), ended),
  ]);

  // Waiting calls appear only if there are any.
  const queued = h("ul.list.compact", { "aria-label": "Waiting calls" }), queuedTitle = h("h2", {}, "Waiting");
  const waitingSection = h("section", { hidden: true }, queuedTitle, queued);
  ended.parentElement.before(waitingSection);
  async function drawWaiting(n) {
    waitingSection.hidden = n === 0;
    if (n === 0) return queued.replaceChildren();
    try {
      const calls = (await get("/api/waiting", {}, abort.signal)).waiting.filter(matches).slice(0, 50);
      if (queued.contains(document.activeElement)) return;
      replace(queued, calls.map(c => h("li.pick", { "data-row": true }, pick(c.session + "." + c.id, c), h("a.line", { href: "#/calls/" + path(c.session, c.id) }, chip("queued"), h("b", {}, c.tool), h("span.text", {}, asked(c.args_excerpt)), h("span.text.id", {}, c.session + " / " + c.id), h("span.grow"), h("span.tag", {}, "queue " + c.queue), h("span.num.ago", {}, time(c.queued_at, "since"))))),
        n > calls.length && !text ? h("li.more", {}, "and " + plural(n - calls.length, "more call")) : null);
      if (picks) picks.draw();
    } catch { /* the next status tries again */ }
  }

  let loaded = false, calls = [];
  const rows = new Map();
  function row(key, call) {
    const bar = load(0), text = h("span.step"), since = time(call.started_at, "since");
    const el = h("li.call", { "data-row": true },
      h("div.line", {}, pick(key, call), h("a", { href: "#/calls/" + path(call.session, call.id) }, call.tool || "call"), h("span.text", {}, asked(call.args_excerpt)), h("span.id", {}, call.session + " / " + call.id),
        h("span.grow"), h("span.num", {}, since),
        state.readOnly ? null : button("Cancel", e => {
          e.target.disabled = true;
          act("Cancelled.", () => post("/api/calls/" + path(call.session, call.id) + "/cancel")).then(ok => { if (!ok) e.target.disabled = false; });
        }, ".quiet")),
      bar, h("div.line.small", {}, text, h("span.grow"), h("span.id", {}, call.worker)));
    rows.set(key, { el, bar, text });
    return el;
  }
  function progress(key, p) {
    const r = rows.get(key);
    if (!r || !p) return;
    const part = fraction(p.done, p.total);
    r.bar.style.setProperty("--part", part);
    r.bar.classList.toggle("busy", !(p.total > 0));
    replace(r.text, (p.total > 0 ? percent(part) + "  " : "") + (p.message || ""));
  }
  function drawRunning(all) {
    calls = all;
    const shown = calls.filter(matches);
    const keys = new Set();
    for (const call of shown.slice(0, maxRunning)) {
      const key = call.session + "." + call.id;
      keys.add(key);
      if (!running.has(key)) list.append(row(key, call));
      running.set(key, call);
      progress(key, call.progress || {});
    }
    for (const [key, r] of rows) if (!keys.has(key)) { r.el.remove(); rows.delete(key); running.delete(key); }
    const none = list.querySelector(".none");
    if (calls.length === 0 && !none) list.append(h("li.none", {}, empty("Nothing is running", "A call appears here while a worker runs it. Try one in a terminal:", "stevedore call shell 'command=for i in $(seq 20); do echo $i; sleep 1; done'")));
    else if (calls.length && none) none.remove();
    const more = list.querySelector(".more");
    if (more) more.remove();
    if (shown.length > maxRunning) list.append(h("li.more", {}, "and " + plural(shown.length - maxRunning, "more call")));
    if (picks) picks.draw();
  }

  function drawQuay() {
    yard.draw(quay, plural(quay.reduce((n, c) => n + total(c), 0), "call") + " ended in the last minute, " + quay.reduce((n, c) => n + c.bad, 0) + " of them with an error", 8);
  }

  function endedRow(e) {
    return h("li", { "data-row": true }, h("a.line", { href: "#/calls/" + path(e.session, e.id) },
      called(e), h("span.grow"), h("span.num", {}, duration(e.duration_ms)), h("span.num.ago", {}, time(e.stored_at))));
  }
  function drawRecent() {
    if (recent.length === 0) replace(ended, h("li.none", {}, h("p.hint", {}, "No call has ended yet.")));
    else replace(ended, recent.map(endedRow));
  }

  function drawStatus(s) {
    const waiting = s.queues.reduce((n, q) => n + q.waiting, 0);
    const runningCount = Math.max(running.size, s.queues.reduce((n, q) => n + q.running, 0));
    drawWaiting(waiting);
    replace(summary, (runningCount ? plural(runningCount, "call") + (runningCount === 1 ? " is" : " are") + " running" : "No call is running")
      + (waiting ? ", " + count(waiting) + (waiting === 1 ? " waits" : " wait") : "") + ". "
      + (s.workers.length ? plural(s.workers.length, "worker") + (s.workers.length === 1 ? " answers." : " answer.") : "No worker answers: start one with “stevedore serve”."));
    replace(asks, state.approvals ? h("p.problem.ask", {}, h("a", { href: "#/approvals" }, plural(state.approvals, "call") + (state.approvals === 1 ? " waits" : " wait") + " for your approval")) : null);
    replace(problems, s.problems.concat((s.errors || []).map(text => ({ text }))).map(p => problem(p)));
  }

  async function refresh() {
    try { drawStatus(await get("/api/status", {}, abort.signal)); } catch (e) { if (e.name !== "AbortError") replace(summary, e.message); }
  }
  async function reload() {
    refresh();
    try {
      const [r, page] = await Promise.all([get("/api/running", {}, abort.signal), get("/api/calls", { limit: maxRecent }, abort.signal)]);
      if (!loaded) { loaded = true; list.replaceChildren(); }
      drawRunning(r.running);
      if (summary.textContent === "…") replace(summary, r.running.length ? plural(r.running.length, "call") + (r.running.length === 1 ? " is" : " are") + " running." : "No call is running.");
      recent.splice(0, recent.length, ...page.calls);
      const at = Date.now();
      for (const c of quay) c.done = c.bad = c.wait = c.off = 0;
      for (const e of page.calls) {
        const age = Math.floor((at - new Date(e.stored_at)) / 1000);
        if (age >= 0 && age < seconds) quay[seconds - 1 - age][kindOf(e.outcome)]++;
      }
      drawRecent();
      drawQuay();
    } catch (e) { if (e.name !== "AbortError") replace(summary, e.message); }
  }
  const stop = onFrame(frame => {
    if (!loaded) return; // reload shows it
    if (frame.running) drawRunning(frame.running);
    for (const [key, p] of Object.entries(frame.progress || {})) progress(key, p);
    if (frame.count) {
      const column = quay[seconds - 1];
      const seen = frame.ended || [];
      for (const e of seen) column[kindOf(e.outcome)]++;
      column.done += frame.count - seen.length;
      recent.unshift(...seen.reverse());
      recent.length = Math.min(recent.length, maxRecent);
      drawRecent();
    }
  }, reload);
  const tick = setInterval(() => { quay.push(quay.shift()); Object.assign(quay[seconds - 1], { done: 0, bad: 0, wait: 0, off: 0 }); drawQuay(); }, 1000);
  const poll = setInterval(refresh, 4000);
  replace(list, loading());
  replace(ended, loading());
  reload();
  return () => { stop(); clearInterval(tick); clearInterval(poll); abort.abort(); };
}

export default { name: "now", title: "Now", key: "o", show };
