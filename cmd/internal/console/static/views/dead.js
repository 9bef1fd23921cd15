// Dead letters: what could not be processed, why, and retry.
import { h, add, replace, time, absolute, button, empty, bytes, path, loading } from "../dom.js";
import { get } from "../api.js";
import { onFrame } from "../live.js";
import { confirm } from "../feedback.js";
import { selection } from "../select.js";

let select = null;

function show(main, parts, state) {
  const abort = new AbortController();
  const list = h("ul.list.compact", { "aria-label": "Dead letters, newest first" });
  const detail = h("section.detail", { "aria-label": "One dead letter" });
  const filter = { kind: "", text: "" };
  let timer = 0;
  const filters = h("div.filters", {},
    h("select", { "aria-label": "Kind", onchange: e => { filter.kind = e.target.value; reload(false); } }, [["", "any kind"], ...["call", "tick", "notification", "result"].map(k => [k, k])].map(([value, name]) => h("option", { value }, name))),
    h("input", { type: "search", placeholder: "Name, reason or id", "aria-label": "Name, reason or id", "data-search": true, spellcheck: "false",
      oninput: e => { filter.text = e.target.value.trim(); clearTimeout(timer); timer = setTimeout(() => reload(false), 250); } }));
  const picks = state.readOnly ? null : selection({ noun: "dead letter",
    actions: [{ label: "Retry", done: "published again", url: "/api/dead/retry" }, { label: "Remove", done: "removed", url: "/api/dead/remove", danger: true }],
    named: keys => ({ numbers: keys }), all: () => ({ all: true, ...filter, until: letters[0].number }), reload: () => done() });
  if (picks) filters.append(picks.bar);
  add(main, h("div.split", {}, h("section.master", {}, h("h1", {}, "Dead letters"), h("p.lead", {}, "Messages that the workers stopped retrying. Fix the reason, then retry."), filters, h("div.scroll", {}, list)), detail));
  let letters = [], next = 0, loaded = false;
  async function reload(older) {
    try {
      const page = await get("/api/dead", { ...filter, before: older ? next : 0 }, abort.signal);
      letters = older ? letters.concat(page.dead) : page.dead;
      next = page.next || 0;
      loaded = true;
      draw();
    } catch (e) { if (e.name !== "AbortError") replace(list, h("li.problem", {}, e.message)); }
  }
  function draw() {
    if (!loaded) return replace(list, loading());
    drawList();
    if (picks) picks.draw();
  }
  function drawList() {
    if (letters.length === 0 && (filter.kind || filter.text)) return replace(list, h("li.none", {}, empty("No dead letter matches", "Change the filters above.")), older());
    if (letters.length === 0) return replace(list, h("li.none", {}, empty("No dead letters", "Everything that was accepted was processed, or still waits. There is nothing to do.")));
    replace(list, letters.map(l => h("li.pick", { "data-row": true }, picks && picks.box(l.number, l.kind + " " + l.number), h("a.line", { href: "#/dead/" + l.number, "aria-current": String(l.number) === open ? "true" : null },
      h("span.chip.bad", {}, l.kind), h("b", {}, l.name), h("span.text", {}, l.reason), h("span.grow"), h("span.num.ago", {}, time(l.at))))),
      older());
  }
  const older = () => (next ? h("li.more", {}, button("Show older", e => { e.target.disabled = true; reload(true); }, ".quiet")) : null);
  let open = "";
  const done = () => { location.hash = "#/dead"; reload(false); };
  async function drawLetter(number) {
    replace(detail, h("p.hint", {}, "…"));
    const back = h("a.back", { href: "#/dead", "data-back": true }, "← All dead letters");
    try {
      const { letter: l, message, size } = await get("/api/dead/" + path(number), {}, abort.signal);
      if (number !== open) return;
      const change = action => picks.one(action, l.number).then(ok => { if (ok) done(); });
      replace(detail, back, h("div.line.title", {}, h("h1", {}, l.name), h("span.chip.bad", {}, l.kind), h("span.grow"),
        state.readOnly ? null : [button("Retry", () => change(0)), button("Remove", async () => { if (await confirm("Remove this dead letter for good?", "Remove")) change(1); }, ".danger")]),
        h("p.problem", {}, l.reason),
        h("dl.facts", {}, [["Code", l.code], ["Attempts", String(l.attempts)], ["When", absolute(l.at)], ["Subject", l.subject], ["Id", l.id], ["Size", bytes(size)]].map(([k, v]) => h("div", {}, h("dt", {}, k), h("dd", {}, v)))),
        h("h2", {}, "Message"), h("pre.result", { tabindex: "0" }, message));
    } catch (e) { if (e.name !== "AbortError") replace(detail, back, h("p.problem", {}, e.message)); }
  }
  select = parts => {
    open = parts[0] || "";
    main.firstChild.classList.toggle("open", !!open);
    if (open) drawLetter(open);
    else replace(detail, h("p.hint.center", {}, "Choose a dead letter to read its reason and its message."));
    draw();
  };
  const stop = onFrame(frame => { if (frame.dead) reload(false); }, () => reload(false));
  reload(false);
  select(parts);
  return () => { stop(); abort.abort(); select = null; };
}

export default { name: "dead", title: "Dead letters", key: "d", show, update: parts => { if (select) select(parts); return !!select; } };
