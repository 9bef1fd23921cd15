// A JSON document as a tree. A node asks for its children when it is opened, so the size of the
// document does not matter.
import { h, add, replace, parse, count, button } from "../dom.js";
import { get } from "../api.js";

const step = key => (typeof key === "number" ? "[" + key + "]" : /^[A-Za-z_]\w*$/.test(key) ? "." + key : "[" + JSON.stringify(key) + "]");
const size = 100; // children at a time

// tree shows the document of an artifact in root.
export function tree(root, base, signal) {
  async function children(list, path, from) {
    const query = `getpath(${JSON.stringify(path)}) as $v | (if ($v|type) == "object" then ($v|to_entries) else [$v[${from}:${from + size}]|to_entries[]|.key += ${from}] end) as $all | `
      + `(if ($v|type) == "object" then $all[${from}:${from + size}] else $all end)[] | [.key, (.value|type), (.value|if type == "object" or type == "array" then length elif type == "string" then .[:200] else . end)]`;
    const wait = h("li.hint", {}, "Reading …");
    list.append(wait);
    try {
      for (let cursor = ""; ;) {
        const page = await get(base + "/jq", { query, cursor }, signal, parse);
        for (const [key, type, value] of page.results) wait.before(node([...path, key], type, value));
        cursor = page.next_cursor;
        if (!cursor) break;
      }
      const have = list.querySelectorAll(":scope > .node").length;
      replace(wait, have === from + size ? button("More", () => { wait.remove(); children(list, path, have); }, ".quiet") : have ? null : "empty");
      if (!wait.firstChild) wait.remove();
    } catch (e) { if (e.name !== "AbortError") replace(wait, h("p.problem", {}, e.message)); }
  }
  function node(path, type, value) {
    const key = path.at(-1), place = path.map(step).join("").replace(/^\[/, ".[");
    const copy = button("Copy path", async e => { const b = e.currentTarget; await navigator.clipboard.writeText(place).then(() => { b.textContent = "Copied"; }, () => { b.textContent = place; }); }, ".quiet.copy");
    const label = h("b", {}, String(key));
    if (type !== "object" && type !== "array") return h("li.node", {}, h("span.line", {}, label, h("code." + type, {}, JSON.stringify(value)), copy));
    const list = h("ul");
    return h("li.node", {}, h("details", { ontoggle: e => { if (e.target.open && !list.firstChild) children(list, path, 0); } },
      h("summary", {}, h("span.line", {}, label, h("span.hint", {}, type === "array" ? "[" + count(value) + "]" : "{" + count(value) + "}"), copy)), list));
  }
  const list = h("ul.tree", { "aria-label": "The document" });
  replace(root, list);
  children(list, [], 0);
}
