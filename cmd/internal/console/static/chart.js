// Charts of columns: each is a stack of what ended well, began in the background, was
// cancelled or failed.
import { h } from "./dom.js";

const kinds = ["done", "wait", "off", "bad"];
export const total = values => kinds.reduce((n, kind) => n + (values[kind] || 0), 0);

// chart returns an element with n columns; draw shows values in them. label says the same in
// words.
export function chart(n) {
  const columns = Array.from({ length: n }, () => h("div.column", {}, kinds.map(kind => h("i." + kind))));
  const el = h("div.quay", { role: "img" }, columns);
  function draw(values, label, least) {
    const top = Math.max(least, ...values.map(total)) || 1;
    values.forEach((v, i) => {
      for (const kind of kinds) columns[i].style.setProperty("--" + kind + "-h", (100 * (v[kind] || 0) / top).toFixed(2) + "%");
    });
    el.setAttribute("aria-label", label);
  }
  return { el, draw };
}
