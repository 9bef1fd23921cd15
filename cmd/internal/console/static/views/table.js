// The table of an artifact: its columns with their types and exceptions, its rows in any order, and
// the answers to SELECTs.
import { h, add, replace, parse, plural, button } from "../dom.js";
import { get } from "../api.js";

const advice = /[;,]( or)? use [\w, ]*_knowledge.*$/; // is for models
// A number that JavaScript would change is as it is written.
const isNumber = cell => typeof cell === "number" || !!(cell && cell.rawJSON);
const quoted = name => '"' + name.replaceAll('"', '""') + '"';

// table shows the table of an artifact in root.
export async function table(root, base, id, signal) {
  const ask = params => get(base + "/sql", params, signal, parse);
  const body = h("div.grid-box"), status = h("p.hint", { role: "status" });
  let job = 0, order = "", down = false, columns = [];

  // show replaces the rows by those of a SELECT. Only the rows of the artifact itself can be sorted by a click.
  async function show(sql, own) {
    const mine = ++job;
    replace(status, "Reading …");
    try {
      const answer = await ask({ sql });
      if (mine !== job) return;
      const rows = h("tbody"), more = h("div.more"), numbers = answer.columns.map(() => false);
      const fill = (page, shown) => {
        add(rows, page.rows.map(row => h("tr", {}, row.map((cell, i) => h("td" + (isNumber(cell) ? ".num" : cell === null ? ".null" : ""), {}, cell === null ? "NULL" : String(cell.rawJSON || cell))))));
        page.rows[0]?.forEach((cell, i) => { numbers[i] ||= isNumber(cell); });
        shown += page.rows.length;
        replace(status, (page.at_least ? "At least " : "") + plural(page.total, "row") + (page.total > shown ? ", " + plural(shown, "shown", "shown") : "") + ".");
        replace(more, page.next_cursor && button("More rows", async () => {
          const next = await ask({ sql, cursor: page.next_cursor }).catch(fail);
          if (next && mine === job) fill(next, shown);
        }, ".quiet"));
      };
      fill(answer, 0);
      const head = answer.columns.map((name, i) => {
        const mark = name === order ? (down ? " ↓" : " ↑") : "", column = columns.find(c => c.name === name);
        const cell = own ? button(name + mark, () => { down = name === order && !down; order = name; show(select(), true); }, ".sort") : name;
        return h("th" + (numbers[i] ? ".num" : ""), { scope: "col", "aria-sort": own && name === order ? (down ? "descending" : "ascending") : null },
          cell, own && column && h("span.type", { title: column.read || "" }, column.type.toLowerCase()));
      });
      const exceptions = own ? columns.filter(c => c.misfits).map(c => c.name + ": " + plural(c.misfits, "cell") + " not as the rest" + (c.examples ? ", such as " + c.examples.join(", ") : "") + (c.texts ? ". They count as NULL; " + c.texts + " has their text." : ".")) : [];
      replace(body, [...new Set([...exceptions, ...(answer.notes || [])])].map(note => h("p.hint", {}, note)),
        h("div.table.grid", { tabindex: "0", role: "region", "aria-label": "Rows" }, h("table", {}, h("thead", {}, h("tr", {}, head)), rows)), more);
    } catch (e) { fail(e); }
  }
  function fail(e) {
    if (e.name !== "AbortError") { replace(status); replace(body, h("p.problem", {}, e.message.replace(advice, "") + (columns.length ? "" : ". Text shows all of it."))); }
  }
  const select = () => "SELECT * FROM t1" + (order ? " ORDER BY " + quoted(order) + (down ? " DESC" : "") : "");
  const box = h("input", { type: "search", spellcheck: "false", "aria-label": "SELECT", placeholder: "SELECT … FROM t1", onkeydown: e => {
    if (e.key === "Enter") show(e.target.value.trim() || select(), !e.target.value.trim());
  } });
  replace(root, h("div.filters", {}, box), status, body);
  try {
    const [schema] = (await ask()).tables;
    columns = schema.columns;
    const others = (schema.others || []).map(o => o.path || ".");
    if (others.length) add(root.firstChild, h("span.hint", {}, "Other tables: " + others.slice(0, 8).join(", ") + ". To select one: FROM \"" + id + ":" + others[0] + '"'));
    await show(select(), true);
  } catch (e) { fail(e); }
}
