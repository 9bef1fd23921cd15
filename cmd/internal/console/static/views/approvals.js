// Approvals: calls that wait for a person's yes or no.
import { h, add, replace, parse, time, empty, load, path, button, loading } from "../dom.js";
import { get, post } from "../api.js";
import { onFrame } from "../live.js";
import { act } from "../feedback.js";

// pretty shows arguments in lines, if they are complete JSON.
export function pretty(text) {
  try { return JSON.stringify(parse(text), null, 2); } catch { return text; }
}

// card is one approval; done is called when it was answered.
export function card(a, state, done) {
  const reason = h("input", { type: "text", placeholder: "Reason for the model (optional)", "aria-label": "Reason for the model", maxlength: "2000" });
  const answer = approve => async e => {
    const buttons = e.target.parentElement.querySelectorAll("button");
    for (const b of buttons) b.disabled = true;
    const answered = await act(approve ? "Approved: the call runs." : "Denied: the call does not run.", () => post("/api/approvals/" + path(a.session, a.id), { approve, reason: reason.value }));
    if (!answered) for (const b of buttons) b.disabled = false;
    done();
  };
  const whole = typeof a.args !== "string"; // the list cuts arguments that are too long
  const total = new Date(a.deadline) - new Date(a.asked_at);
  return h("li.call", { "data-row": true, tabindex: "-1", "data-key": a.session + "." + a.id },
    h("div.line", {}, h("b", {}, a.tool), h("span.grow"), h("span.num", {}, "asked ", time(a.asked_at))),
    h("div.line.small", {}, h("span.id", {}, a.session + " / " + a.id)),
    h("pre.result", { tabindex: "0", "aria-label": "Arguments of the call" }, (whole ? JSON.stringify(a.args, null, 2) : a.args) || "no arguments"),
    !whole ? h("p.problem", {}, "These are not all arguments: they are too long to be shown.") : null,
    load(1 - (Date.now() - new Date(a.asked_at)) / total, "warn"),
    h("p.hint", {}, "Without an answer, the answer is no: ", time(a.deadline), "."),
    state.readOnly ? h("p.hint", {}, "This page is read-only.") : h("div.approve", {}, reason, button("Deny", answer(false), ".danger"), button("Approve", answer(true), ".yes")));
}

function show(main, parts, state) {
  const abort = new AbortController();
  const list = h("ul.list", { "aria-label": "Calls that wait for an approval" });
  add(main, [h("h1", {}, "Approvals"), h("p.lead", {}, "These calls wait for your answer. They hold no worker while they wait."), list]);
  const rows = new Map();
  async function reload() {
    try {
      const d = await get("/api/approvals", {}, abort.signal, parse);
      const keys = new Set(d.approvals.map(a => a.session + "." + a.id + a.asked_at));
      let gone = false;
      for (const [key, el] of rows) if (!keys.has(key)) { el.remove(); rows.delete(key); gone = true; }
      if (rows.size === 0) list.replaceChildren();
      for (const a of d.approvals) {
        const key = a.session + "." + a.id + a.asked_at;
        if (!rows.has(key)) { rows.set(key, card(a, state, reload)); list.append(rows.get(key)); }
      }
      if (gone && document.activeElement === document.body) (list.querySelector("[data-row]") || main).focus(); // the button that had it is gone
      if (d.approvals.length === 0) replace(list, h("li.none", {}, empty("No call waits for an approval", "Choose which calls need one when you start the worker:", "stevedore up --ask 'shell,write_file'")));
    } catch (e) { if (e.name !== "AbortError") { rows.clear(); replace(list, h("li.problem", {}, e.message)); } }
  }
  const stop = onFrame(frame => { if (frame.approvals) reload(); }, reload);
  replace(list, loading());
  reload();
  return () => { stop(); abort.abort(); };
}

export default { name: "approvals", title: "Approvals", key: "p", show };
