// Usage: the calls, tokens and cost of the last day, and what the agents used, in groups.
import { h, add, replace, absolute, count, plural, empty, path, loading, load, fraction, percent, table } from "../dom.js";
import { get } from "../api.js";
import { chart } from "../chart.js";

const groups = ["day", "model", "session", "tool"];
const ranges = [["86400", "last day"], ["604800", "last 7 days"], ["2592000", "last 30 days"]];
const maxJobs = 200;
const money = cost => (cost ? cost.toFixed(4) : "–");
const tokens = u => u.input_tokens + u.output_tokens;

function show(main, parts, state) {
  const abort = new AbortController();
  const query = { by: state.query.get("by") || groups[0], last: state.query.get("last") || ranges[1][0] };
  const choice = (name, label, options) => {
    const el = h("select", { "aria-label": label, onchange: () => {
      query[name] = el.value;
      history.replaceState(null, "", "#/usage?" + new URLSearchParams(query));
      reload();
    } }, options.map(([value, text]) => h("option", { value }, text)));
    el.value = query[name];
    return el;
  };
  const charts = ["Calls that ended", "Tokens of the agents", "Cost of the agents"].map(title => ({ title, sum: h("span"), top: h("span.top"), axis: h("div.axis.hours", { "aria-hidden": "true" }), ...chart(24) }));
  const body = h("div"), jobs = h("section", { hidden: true });
  add(main, [h("h1", {}, "Usage"),
    h("section", {}, h("h2", {}, "The last 24 hours"), charts.map(c => [h("p.scale", {}, h("b", {}, c.title), c.sum), h("p.hint", {}, c.top), c.el, c.axis])), jobs,
    h("section", {}, h("h2", {}, "What the agents used"), h("div.filters", {}, choice("by", "Group", groups.map(g => [g, "by " + g])), choice("last", "Time", ranges)), body)]);

  function drawDay(hours) {
    const sum = f => hours.reduce((n, x) => n + f(x), 0);
    const at = i => absolute(hours[i].at) + ": ";
    const [calls, used, cost] = charts;
    const texts = [plural(sum(x => x.calls), "call") + ", " + count(sum(x => x.failed)) + " failed", plural(sum(x => x.tokens), "token"), money(sum(x => x.cost))];
    const top = f => Math.max(...hours.map(f)), tops = [count(top(x => x.calls)) + " calls", count(top(x => x.tokens)) + " tokens", money(top(x => x.cost))];
    charts.forEach((c, i) => {
      c.sum.textContent = texts[i];
      c.top.textContent = "The busiest hour: " + tops[i];
      replace(c.axis, axisOf(hours));
    });
    calls.draw(hours.map(x => ({ done: x.calls - x.failed, bad: x.failed })), texts[0] + " in the last 24 hours", i => at(i) + plural(hours[i].calls, "call") + ", " + count(hours[i].failed) + " failed");
    used.draw(hours.map(x => ({ done: x.tokens })), texts[1] + " in the last 24 hours", i => at(i) + plural(hours[i].tokens, "token"));
    cost.draw(hours.map(x => ({ done: x.cost })), "cost " + texts[2] + " in the last 24 hours", i => at(i) + money(hours[i].cost));
  }
  const axisOf = hours => hours.map((x, i) => new Date(x.at).getHours() % 6 === 0 && h("span", { style: { "--at": i / hours.length } }, new Date(x.at).getHours() + ":00"));

  // drawJobs shows one line for each job: when it ran on the day, and what failed.
  function drawJobs({ hours, jobs: all, slot_ms }) {
    const from = Date.parse(hours[0].at), length = hours.length * 3600000, shown = all.slice(0, maxJobs);
    const call = (k, text) => k && h("a", { href: "#/calls/" + path(k.session, k.id) }, text);
    const sum = (j, field) => j.slots.reduce((n, s) => n + s[field], 0), told = s => plural(s.runs, "run") + (s.failed ? ", " + count(s.failed) + " failed" : "");
    jobs.hidden = !all.length;
    replace(jobs, h("h2", {}, "Jobs and heartbeats on this day"), h("p.hint", {}, "Runs that have ended. A mark is the runs that began within " + plural(slot_ms / 60000, "minute") + ", as long as the longest of them; one that failed is marked in another colour and height."),
      h("div.axis.day", { "aria-hidden": "true" }, axisOf(hours)),
      h("ul.list", { "aria-label": "Jobs and heartbeats" }, shown.map(j => {
        const all = { runs: sum(j, "runs"), failed: sum(j, "failed") };
        return h("li.job", { "data-row": true }, h("span.line", {}, h("b.text", {}, j.name), h("span.tag", {}, j.kind), h("span.id", {}, j.session)),
          h("span.dayline", { role: "img", "aria-label": j.name + ": " + told(all) }, j.slots.map(s => h("i." + (s.failed ? "bad" : "done"), { title: absolute(s.at) + ": " + told(s), style: { "--at": (Date.parse(s.at) - from) / length, "--part": Math.min(1, s.ms / length) } }))),
          h("span.line.small", {}, told(all), h("span.grow"), call(j.last_failed, "last failure"), call(j.last, "last run")));
      }), all.length > maxJobs && h("li.more", {}, "and " + plural(all.length - maxJobs, "more job"))));
  }
  async function readDay() {
    try {
      for (let more = true; more;) {
        const d = await get("/api/day", {}, abort.signal);
        drawDay(d.hours);
        if (!jobs.contains(document.activeElement)) drawJobs(d);
        more = d.more;
      }
    } catch (e) { if (e.name !== "AbortError") charts[0].sum.textContent = e.message; }
  }

  const share = part => h("td.fill", {}, load(part, "done"), percent(part));
  const row = (of, u, part) => h("tr", {}, h("th", { scope: "row" }, of), part == null ? h("td") : share(part), h("td.num", {}, u.turns == null ? "" : count(u.turns)), h("td.num", {}, money(u.cost)), h("td.num", {}, count(u.input_tokens)), h("td.num", {}, count(u.output_tokens)), h("td.num", {}, count(u.cached_input_tokens)));
  async function reload() {
    replace(body, loading("div"));
    try {
      const { used } = await get("/api/usage", query, abort.signal);
      if (used.length === 0) return replace(body, empty("No agent used a model in this time", "Talk to an agent in Conversations, or in a terminal:", "stevedore agent \"say hello\""));
      used.sort((a, b) => (query.by === "day" ? a.of < b.of ? -1 : 1 : (b.cost || 0) - (a.cost || 0) || tokens(b) - tokens(a)));
      const all = { input_tokens: 0, output_tokens: 0, cached_input_tokens: 0, cost: 0, turns: query.by === "tool" ? null : 0 };
      for (const u of used) for (const k in all) if (all[k] != null) all[k] += u[k] || 0;
      replace(body, table("What the agents used", [query.by, all.cost ? "Share of the cost" : "Share of the tokens", "Turns", "Cost", "Tokens in", "Tokens out", "Cached"],
        [used.map(u => row(query.by === "session" ? h("a", { href: "#/conversations/" + path(u.of) }, u.of) : u.of || "unknown", u, all.cost ? fraction(u.cost, all.cost) : fraction(tokens(u), tokens(all)))), used.length > 1 ? row("total", all) : null]),
      query.by === "tool" ? h("p.hint", {}, "What a turn used belongs to the tools whose results it read, in proportion to their length; (prompt) is what the other turns used.") : null,
      h("p.hint", {}, all.cost ? "Cost is in the currency of --price." : "No cost: start the worker with --price."));
    } catch (e) { if (e.name !== "AbortError") replace(body, h("p.problem", {}, e.message)); }
  }
  reload();
  readDay();
  const timer = setInterval(() => { if (!document.hidden) readDay(); }, 15000);
  return () => { clearInterval(timer); abort.abort(); };
}

export default { name: "usage", title: "Usage", key: "u", show };
