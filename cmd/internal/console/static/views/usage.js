// Usage: the tokens and cost of the agents, in groups.
import { h, add, replace, count, empty, path, loading, load, fraction, percent, table } from "../dom.js";
import { get } from "../api.js";

const groups = ["day", "model", "session", "tool"];
const ranges = [["86400", "last day"], ["604800", "last 7 days"], ["2592000", "last 30 days"]];
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
  const body = h("div");
  add(main, [h("h1", {}, "Usage"),
    h("section", {}, h("div.filters", {}, choice("by", "Group", groups.map(g => [g, "by " + g])), choice("last", "Time", ranges)), body)]);

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
  return () => abort.abort();
}

export default { name: "usage", title: "Usage", key: "u", show };
