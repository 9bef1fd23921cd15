// A diff between the results of two calls of one tool.
import { h, replace, button, absolute, count, plural, path, asked, empty } from "../dom.js";
import { get } from "../api.js";

const signs = { added: "+", removed: "\u2212", equal: "" };

// compare returns an element that offers the other results of the tool, and shows the diff to one.
export function compare(call, signal) {
  const root = h("div.compare"), shown = h("div");
  const fail = e => { if (e.name !== "AbortError") replace(shown, h("p.problem", {}, e.message)); };
  async function offer() {
    try {
      const { calls } = await get("/api/calls", { tool: call.tool, limit: 100 }, signal);
      const others = calls.filter(c => c.outcome !== "async" && (c.session !== call.session || c.id !== call.id));
      if (!others.length) return replace(root, h("p.hint", {}, "No other result of " + call.tool + " is among the newest 100."));
      const select = h("select", { "aria-label": "Compare with the result of", onchange: () => others[select.value] && show(others[select.value]) }, h("option", { value: "" }, "Compare with the result of …"),
        others.map((c, i) => h("option", { value: i }, absolute(c.stored_at) + "  " + asked(c.args_excerpt).slice(0, 60))));
      replace(root, select, shown);
      select.focus();
    } catch (e) { replace(root, button("Compare with another result", offer, ".quiet"), shown); fail(e); }
  }
  let job = 0;
  async function show(other) {
    const mine = ++job;
    replace(shown, h("p.hint", {}, "Comparing …"));
    try {
      const d = await get("/api/calls/" + path(call.session, call.id) + "/diff", { with_session: other.session, with: other.id }, signal);
      if (mine !== job) return;
      if (!d.lines.length) return replace(shown, empty(d.partial ? "The compared parts are the same" : "The results are the same"));
      replace(shown, h("p.hint", { role: "status" }, d.approximate && "About ", plural(d.added, "line") + " only here, " + plural(d.removed, "line") + " only in ", h("a", { href: "#/calls/" + path(other.session, other.id) }, "the other result"), "."),
        d.partial ? h("p.hint", {}, "Only the first MiB of each result was compared.") : null,
        h("div.diff", { tabindex: "0", role: "region", "aria-label": "Difference of the results" }, d.lines.map(l => (l.kind === "gap" ? h("div.gap", {}, "⋯") : h("div." + l.kind, {}, h("span.n", {}, count(l.number)), h("span.sign", {}, signs[l.kind]), h("code", {}, l.text))))),
        d.cut ? h("p.hint", {}, "There are more lines than these.") : null);
      shown.scrollIntoView({ block: "nearest" });
    } catch (e) { if (mine === job) fail(e); }
  }
  return replace(root, button("Compare with another result", offer, ".quiet"));
}
