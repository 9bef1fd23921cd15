// Schedules: jobs and the heartbeat, with their next runs.
import { h, add, replace, chip, time, absolute, button, empty, path, loading, count, plural, asked } from "../dom.js";
import { get, post } from "../api.js";
import { act, confirm } from "../feedback.js";

function show(main, parts, state) {
  const abort = new AbortController();
  const idle = h("p.hint", { hidden: true }, "No heartbeat is scheduled: HEARTBEAT.md is missing or has no instructions. That costs nothing.");
  const list = h("ul.list", { "aria-label": "Schedules" });
  add(main, [h("h1", {}, "Schedules"), h("p.lead", {}, "The server fires these jobs; any worker runs them."), list, idle]);
  const change = (s, action, text) => act(text, () => post("/api/schedules/" + path(s.schedule, action))).then(reload);
  function row(s) {
    const run = s.last_run;
    const next = s.upcoming[0];
    return h("li.call", { "data-row": true, tabindex: "-1" },
      h("div.line", {}, h("b", {}, s.name), h("span.tag", {}, s.kind || "cron"), h("span.text", {}, s.when), h("span.grow"),
        s.enabled ? null : chip("disabled"), state.readOnly || s.kind ? null : [
          s.enabled ? button("Disable", () => change(s, "disable", "Disabled."), ".quiet") : button("Enable", () => change(s, "enable", "Enabled."), ".quiet"),
          button("Remove", async () => { if (await confirm("Remove the job " + s.name + "? Its current run continues.", "Remove")) change(s, "remove", "Removed."); }, ".quiet")]),
      h("div.line.small", {}, "calls ", h("b", {}, s.tool), s.args_excerpt && h("span.text", {}, asked(s.args_excerpt)), s.kind ? " with HEARTBEAT.md in session " : " in session ", h("span.id", {}, s.session)),
      h("div.runs", { "aria-label": "Next runs" }, next ? s.upcoming.map((at, i) => h("span.next", { title: absolute(at) }, h("span.load." + (i ? "off" : "run"), { "aria-hidden": "true", style: { "--part": i ? 0 : 1 } }), time(at), absolute(at))) : h("span.hint", {}, s.idle || "no next run")),
      run ? h("div.line.small.wrap", {}, "last run ", time(run.slot), " ", run.outcome ? chip(run.outcome) : "not ended yet", " ", run.message ? h("span.text", {}, run.message) : null,
        s.used ? h("span.num", {}, plural(s.used.turns, "turn") + ", " + count(s.used.input_tokens + s.used.output_tokens) + " tokens" + (s.used.cost ? ", cost " + s.used.cost.toFixed(4) : "")) : null, h("span.grow"),
        s.used ? h("a", { href: "#/conversations/" + path(s.session, "trace", run.call) }, "its trace") : null, h("a", { href: "#/calls/" + path(s.session, run.call) }, "its call"))
        : s.kind ? h("div.line.small", {}, "has not run yet") : null);
  }
  async function reload() {
    try {
      const d = await get("/api/schedules", {}, abort.signal);
      idle.hidden = d.schedules.some(s => s.kind === "heartbeat");
      if (d.schedules.length === 0) replace(list, h("li.none", {}, empty("No schedule yet", "A job calls a tool at a time, at an interval or by a cron expression. Add one:", "stevedore cron add backup shell 'command=make backup' --every 6h")));
      else replace(list, d.schedules.map(row), d.omitted ? h("li.more", {}, "and " + d.omitted + " more; see stevedore cron ls") : null);
    } catch (e) { if (e.name !== "AbortError") replace(list, h("li.problem", {}, e.message)); }
  }
  replace(list, loading());
  reload();
  const timer = setInterval(() => { if (!document.hidden && !list.contains(document.activeElement)) reload(); }, 5000);
  return () => { clearInterval(timer); abort.abort(); };
}

export default { name: "schedules", title: "Schedules", key: "s", show };
