// Bulk actions: on the selected rows of a list, or on all that match its filters.
import { h, replace, button, plural, count } from "./dom.js";
import { post } from "./api.js";
import { toast, confirm } from "./feedback.js";

// change sends a request, and again as long as more may match, and tells the outcome.
async function change(action, body, noun) {
  let changed = 0, failed = 0, error = "", next = 0;
  try {
    do {
      const r = await post(action.url, { ...body, after: next });
      changed += r.changed;
      failed += r.failed;
      error = error || r.error || "";
      next = r.next || 0;
    } while (next);
  } catch (e) { error = e.message; }
  if (changed || !error) toast(plural(changed, noun) + " " + action.done + ".");
  if (error) toast((failed > 1 ? count(failed) + " failed, the first: " : "") + error, "bad");
  return !error;
}

// selection returns the bar with the buttons, and box, which returns the checkbox of a row.
// named and all return the body of the request for keys, and for all that match.
export function selection({ noun, actions, named, all, reload }) {
  const chosen = new Set(), boxes = new Map();
  const bar = h("div.bulk", { role: "group", "aria-label": "Change several" });
  const every = h("input", { type: "checkbox", onchange: () => {
    for (const [key, el] of boxes) { el.checked = every.checked; if (every.checked) chosen.add(key); else chosen.delete(key); }
    draw();
  } });
  function draw() {
    for (const [key, el] of boxes) if (!el.isConnected) { boxes.delete(key); chosen.delete(key); }
    bar.hidden = boxes.size === 0;
    every.checked = boxes.size > 0 && chosen.size === boxes.size;
    every.indeterminate = chosen.size > 0 && !every.checked;
    buttons.forEach((el, i) => { el.textContent = actions[i].label + (chosen.size ? " " + count(chosen.size) + " selected" : " all"); });
  }
  const buttons = actions.map(action => button("", async () => {
    const keys = [...chosen];
    if (!await confirm(action.label + " " + (keys.length ? plural(keys.length, noun) : "all that match the filters, also those that are not shown") + "?", action.label)) return;
    buttons.forEach(el => { el.disabled = true; });
    await change(action, keys.length ? named(keys) : all(), noun);
    buttons.forEach(el => { el.disabled = false; });
    chosen.clear();
    reload();
  }, ".quiet" + (action.danger ? ".danger" : "")));
  replace(bar, h("label.check", {}, every, "Select all shown"), h("span.grow"), buttons);
  draw();
  const box = (key, label) => {
    const el = h("input", { type: "checkbox", "aria-label": "Select " + label, onchange: e => { if (e.target.checked) chosen.add(key); else chosen.delete(key); draw(); } });
    el.checked = chosen.has(key);
    boxes.set(key, el);
    return h("label.pick-box", {}, el);
  };
  return { bar, box, draw, one: (action, key) => change(actions[action], named([key]), noun) };
}
