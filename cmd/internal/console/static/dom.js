// Elements and formats. Texts from tools and models are hostile: they become text nodes,
// never HTML, and characters that could disguise them become visible.

const neighbour = "[^\\u0000-\\u009f\\u061c\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u2069\\ufeff]"; // of a joiner in an emoji or a Persian word
const hidden = new RegExp("[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u061c\\u200b\\u200e\\u200f\\u202a-\\u202e\\u2060-\\u2069\\ufeff]"
  + `|(?<!${neighbour})[\\u200c\\u200d]|[\\u200c\\u200d](?!${neighbour})`, "g");

// visible replaces control characters and invisible ones that change how a text looks.
export function visible(text) {
  return String(text).replace(hidden, c => {
    const code = c.codePointAt(0);
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    return "\u27e8" + code.toString(16).toUpperCase().padStart(4, "0") + "\u27e9";
  });
}

// h creates an element: h("a.name", {href, onclick}, child, ...). A child is an element,
// a text, a list of these, or null.
export function h(spec, props, ...children) {
  const [tag, ...classes] = spec.split(".");
  const el = document.createElement(tag || "div");
  if (classes.length) el.className = classes.join(" ");
  for (const [name, value] of Object.entries(props || {})) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) el.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [k, v] of Object.entries(value)) el.style.setProperty(k, v);
    else if (name === "value") el.value = value;
    else if (name === "href" && !/^(#|\/(?!\/))/.test(value)) throw new Error("a link leaves this page");
    else el.setAttribute(name, value === true ? "" : value);
  }
  add(el, children);
  return el;
}

export function add(el, children) {
  for (const child of [children].flat(Infinity)) {
    if (child == null || child === false) continue;
    el.append(child instanceof Node ? child : visible(child));
  }
  return el;
}

export function replace(el, ...children) {
  el.replaceChildren();
  return add(el, children);
}

// fraction is a part of a whole, from 0 to 1; 0 if the whole is unknown.
export const fraction = (part, whole) => (whole > 0 ? Math.max(0, Math.min(1, (part || 0) / whole)) : 0);
export const percent = part => (part > 0 && part < 0.01 ? "< 1" : Math.round(100 * part)) + " %";

// parse decodes JSON. A number that JavaScript would change stays as it is written.
export const parse = text => JSON.parse(text, (key, v, { source } = {}) => (typeof v === "number" && source && JSON.rawJSON && String(v) !== source ? JSON.rawJSON(source) : v));

// asked says in one line what a call is about: the values of its arguments, or the start of them.
export function asked(text) {
  let args;
  try { args = parse(text); } catch { return text || ""; } // the start of them is no JSON
  if (typeof args !== "object" || !args) return text;
  const show = v => (typeof v === "string" ? v : JSON.stringify(v));
  const fields = Object.entries(args);
  return fields.length === 1 && typeof fields[0][1] === "string" ? fields[0][1] : fields.map(([name, v]) => name + ": " + show(v)).join("  ");
}

const units = ["B", "KiB", "MiB", "GiB", "TiB"];
export function bytes(n) {
  let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i++; }
  return (i && n < 10 ? n.toFixed(1) : Math.round(n)) + " " + units[i];
}

const integers = new Intl.NumberFormat("en");
export const count = n => integers.format(n || 0);
export const plural = (n, one, many) => count(n) + " " + (n === 1 ? one : many || one + "s");

export function duration(ms) {
  if (ms < 1000) return Math.max(0, Math.round(ms)) + " ms";
  const s = ms / 1000;
  if (s < 60) return (s < 10 ? s.toFixed(1) : Math.round(s)) + " s";
  const m = Math.floor(s / 60);
  if (m < 60) return m + " min " + Math.round(s % 60) + " s";
  const hours = Math.floor(m / 60);
  return hours < 48 ? hours + " h " + (m % 60) + " min" : Math.round(hours / 24) + " days";
}

const dates = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const zero = at => !at || at.startsWith("0001-");
export const absolute = at => zero(at) ? "–" : dates.format(new Date(at));

function relative(at) {
  const ms = Date.now() - new Date(at);
  const s = Math.round(Math.abs(ms) / 1000);
  if (s < 1) return "now";
  const text = s < 60 ? s + " s" : s < 3600 ? Math.floor(s / 60) + " min" : duration(s * 1000);
  return ms > 0 ? text + " ago" : "in " + text;
}

// time shows how long ago a time was, and keeps that current.
export function time(at, format = "ago") {
  if (zero(at)) return h("span", {}, "–");
  const el = h("time", { datetime: at, title: absolute(at), "data-format": format });
  el.textContent = format === "since" ? duration(Date.now() - new Date(at)) : relative(at);
  return el;
}

setInterval(() => {
  for (const el of document.querySelectorAll("time[data-format]")) {
    const at = el.getAttribute("datetime");
    const text = el.dataset.format === "since" ? duration(Date.now() - new Date(at)) : relative(at);
    if (el.textContent !== text) el.textContent = text;
  }
}, 1000);

// load is the only picture of the page: a container that is filled to a part. Text beside
// it says the same, so it is hidden from screen readers.
export function load(part, kind = "run") {
  return h("span.load." + kind, { "aria-hidden": "true", style: { "--part": fraction(part, 1) } });
}

// sizeBar is filled to a size. Its scale is logarithmic: each third is a thousand times as much.
export const sizeBar = size => load(Math.log10(Math.max(1, size)) / 9, "done.size");
export const sizeScale = () => h("p.hint", {}, "The bar of a size is logarithmic: a third is 1 kB, two thirds are 1 MB, all of it is 1 GB.");

const kinds = {
  done: "done", completed: "done", end_turn: "done", async: "wait", queued: "wait", waiting: "wait", open: "run", running: "run", input_required: "warn",
  failed: "bad", unknown: "bad", timeout: "bad", turn_limit: "warn", token_budget: "warn", cost_budget: "warn", deadline: "warn",
  truncated: "warn", refused: "warn", abandoned: "bad", cancelled: "off", approved: "done", denied: "bad",
};
export const kindOf = state => kinds[state] || "off";
const words = { completed: "done", end_turn: "done", async: "in background", input_required: "needs approval" };

// chip shows a state in a word and a colour.
export const chip = state => h("span.chip." + kindOf(state), {}, words[state] || String(state).replaceAll("_", " "));

// loading stands where data will be.
export const loading = (tag = "li.none") => h(tag, {}, h("p.hint", {}, "Loading …"));

// empty says what to do next.
export function empty(title, hint, command) {
  return h("div.empty", {}, h("h2", {}, title), hint && h("p", {}, hint), command && h("pre", { tabindex: "0" }, command));
}

// problem shows a problem of the status, with a link to the view that helps.
const helpful = {
  dead_letters: ["dead", "Open the dead letters"], stream_nearly_full: ["system", "Open the streams"],
  queue_without_worker: ["system", "Open the queues"], channel_without_worker: ["channels", "Open the channels"],
  job_failing: ["schedules", "Open the schedules"],
  bridge_silent: ["channels", "Open the channels"], bridge_repeats: ["channels", "Open the channels"],
};
export function problem({ code, text, advice }, here) {
  const [view, words] = helpful[code] || [];
  return h("p.problem", {}, text, advice && " " + advice, view && view !== here && [" ", h("a", { href: "#/" + view }, words)]);
}

// table is a table that scrolls by itself.
export function table(label, columns, rows) {
  return h("div.table", { tabindex: "0", role: "region", "aria-label": label }, h("table", {}, h("thead", {}, h("tr", {}, columns.map(c => h("th", { scope: "col" }, c)))), h("tbody", {}, rows)));
}

export const button = (text, onclick, cls = "") => h("button" + cls, { type: "button", onclick }, text);

export const path = (...parts) => parts.map(encodeURIComponent).join("/");
