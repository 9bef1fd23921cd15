// Channels: where users read, and a test for each.
import { h, add, replace, button, empty, path, plural, duration, loading } from "../dom.js";
import { get, post } from "../api.js";

function show(main, parts, state) {
  const abort = new AbortController();
  const list = h("ul.list", { "aria-label": "Channels" });
  add(main, [h("h1", {}, "Channels"), h("p.lead", {}, "Results and messages for users go to a channel. A test takes the same way as every notification."), list]);
  const rows = new Map();
  function row(c) {
    const kind = h("span"), facts = h("span.text"), outcome = h("div.line.small", { role: "status" });
    const test = button("Send a test", async () => {
      test.disabled = true;
      replace(outcome, h("span.load.run.busy"), " sending …");
      try {
        const r = await post("/api/channels/" + path(c.name, "test"));
        if (r.state === "accepted") replace(outcome, h("span.chip.done", {}, "accepted"), " after " + duration(r.ms) + ". Look for it on the channel.");
        else if (r.state === "failed") replace(outcome, h("span.chip.bad", {}, "failed"), " " + r.message + " ", h("a", { href: "#/dead/" + r.dead_letter }, "dead letter"));
        else replace(outcome, h("span.chip.wait", {}, "waiting"), " " + r.message);
      } catch (e) { replace(outcome, h("span.chip.bad", {}, "failed"), " " + e.message); }
      test.disabled = false;
    });
    const el = h("li.call", { "data-row": true, tabindex: "-1" }, h("div.line", {}, h("b", {}, c.name), kind, facts, h("span.grow"), state.readOnly ? null : test), outcome);
    return { el, kind, facts };
  }
  async function reload() {
    try {
      const s = await get("/api/status", {}, abort.signal);
      if (s.channels.length === 0) { rows.clear(); return replace(list, h("li.none", {}, empty("No channel yet", "Start the worker with a channel, such as a file:", "stevedore up --channel log=file:notes.txt --default-channel log"))); }
      if (rows.size === 0) replace(list);
      for (const c of s.channels) {
        if (!rows.has(c.name)) { rows.set(c.name, row(c)); list.append(rows.get(c.name).el); }
        replace(rows.get(c.name).kind, c.kind && h("span.tag", {}, c.kind), c.default && [" ", h("span.tag", {}, "default")]);
        replace(rows.get(c.name).facts, c.served ? "" : [h("span.chip.bad", {}, "not served"), " "], c.waiting + c.sending ? plural(c.waiting + c.sending, "notification") + " on the way" : "nothing waits");
      }
    } catch (e) { if (e.name !== "AbortError") { rows.clear(); replace(list, h("li.problem", {}, e.message)); } }
  }
  replace(list, loading());
  reload();
  const timer = setInterval(() => { if (!document.hidden) reload(); }, 3000);
  return () => { clearInterval(timer); abort.abort(); };
}

export default { name: "channels", title: "Channels", key: "n", show };
