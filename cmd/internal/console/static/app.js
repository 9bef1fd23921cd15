// The shell: routes, navigation, shortcuts, theme.
import { h, replace, button, visible, plural } from "./dom.js";
import { get } from "./api.js";
import { live, onFrame } from "./live.js";
import { toast } from "./feedback.js";
import now from "./views/now.js";
import calls from "./views/calls.js";
import artifacts from "./views/artifacts.js";
import conversations from "./views/conversations.js";
import approvals from "./views/approvals.js";
import schedules from "./views/schedules.js";
import dead from "./views/dead.js";
import channels from "./views/channels.js";
import usage from "./views/usage.js";
import system from "./views/system.js";

const views = [now, calls, artifacts, conversations, approvals, schedules, dead, channels, usage, system];
const main = document.getElementById("main");
const nav = document.getElementById("nav");
const state = { readOnly: true };
let leave = () => {};
let current = null;

const shortcuts = [
  ["g then a letter", "go to a view: " + views.map(v => v.key + " " + v.title.toLowerCase()).join(", ")],
  ["j / k", "next or previous row"], ["Enter", "open the row"], ["Esc", "back to the list"],
  ["/", "search or filter"], ["n / N", "next or previous match in an artifact"], ["t", "light, dark or automatic"], ["?", "this list"],
];

function showHelp() {
  const dialog = h("dialog.help", { "aria-labelledby": "help-title" }, h("h2", { id: "help-title" }, "Keyboard"),
    h("dl", {}, shortcuts.map(([keys, text]) => [h("dt", {}, h("kbd", {}, keys)), h("dd", {}, text)])),
    h("div.actions", {}, button("Close", () => dialog.close())));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

const themes = ["auto", "light", "dark"];
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("theme", theme); } catch { /* not stored */ }
  const el = document.getElementById("theme");
  el.textContent = { auto: "◐", light: "○", dark: "●" }[theme];
  el.setAttribute("aria-label", "Colours: " + theme);
  el.title = "Colours: " + theme;
}
const nextTheme = () => setTheme(themes[(themes.indexOf(document.documentElement.dataset.theme) + 1) % 3]);
let stored = "auto";
try { stored = localStorage.getItem("theme") || "auto"; } catch { /* not stored */ }
setTheme(themes.includes(stored) ? stored : "auto");

replace(nav, h("ul", {}, views.map(v => h("li", {}, h("a", { href: "#/" + v.name, "data-view": v.name }, h("span", {}, v.title), h("span.count", { "data-count": v.name }))))));

// setCount shows a number beside a view, such as that of dead letters.
function setCount(name, n) {
  const el = nav.querySelector("[data-count=" + name + "]");
  const text = n ? String(n) : "";
  if (el && el.textContent !== text) el.textContent = text;
}

function route() {
  const [where, query] = location.hash.replace(/^#\/?/, "").split("?");
  state.query = new URLSearchParams(query || "");
  const [name, ...parts] = where.split("/").map(part => { try { return decodeURIComponent(part); } catch { return part; } });
  const view = views.find(v => v.name === name) || views[0];
  for (const a of nav.querySelectorAll("a")) {
    if (a.dataset.view === view.name) { a.setAttribute("aria-current", "page"); a.scrollIntoView({ block: "nearest", inline: "nearest" }); }
    else a.removeAttribute("aria-current");
  }
  if (current === view && view.update && view.update(parts)) return;
  leave();
  current = view;
  document.title = view.title + " · Stevedore";
  main.className = "view-" + view.name;
  main.replaceChildren();
  leave = view.show(main, parts, state) || (() => {});
  main.scrollTop = 0;
}

window.addEventListener("hashchange", () => {
  route();
  if (!document.activeElement.matches("textarea")) main.focus({ preventScroll: true }); // else the view waits for words
});

let prefix = "";
document.addEventListener("keydown", e => {
  const editing = e.target.matches("input,textarea,select,[contenteditable]");
  if (e.key === "Escape" && !document.querySelector("dialog")) {
    if (editing) return e.target.blur();
    const back = main.querySelector("[data-back]");
    if (back) back.click();
    return;
  }
  if (editing || e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog")) return;
  if (prefix === "g") {
    prefix = "";
    const view = views.find(v => v.key === e.key);
    if (view) { location.hash = "#/" + view.name; e.preventDefault(); }
    return;
  }
  const keys = {
    g: () => { prefix = "g"; setTimeout(() => { prefix = ""; }, 1500); },
    "?": showHelp, t: nextTheme,
    "/": () => { const box = main.querySelector("[data-search]"); if (box) { box.focus(); box.select(); } },
    j: () => step(1), k: () => step(-1),
  };
  if (keys[e.key]) { keys[e.key](); e.preventDefault(); }
  else if (current && current.keydown) current.keydown(e);
});

// step moves the focus to the next or previous row of the view.
function step(by) {
  if (current && current.scroller && current.scroller()) return current.scroller().move(by);
  const rows = [...main.querySelectorAll("[data-row]")].filter(row => row.offsetParent);
  const at = rows.indexOf(document.activeElement.closest("[data-row]"));
  const next = rows[Math.max(0, Math.min(rows.length - 1, at + by))];
  if (next) { const target = next.matches("a,button") ? next : next.querySelector("a,button,summary") || next; target.focus(); next.scrollIntoView({ block: "nearest" }); }
}

document.getElementById("help").addEventListener("click", showHelp);
document.getElementById("theme").addEventListener("click", nextTheme);
live.addEventListener("link", e => {
  const el = document.getElementById("link");
  el.className = "link " + (e.detail ? "on" : "lost");
  el.textContent = e.detail ? "live" : "not connected; trying again";
});
onFrame(frame => {
  if (frame.running) setCount("now", frame.running.length);
  if (frame.dead) refreshCounts();
  if (frame.approvals) refreshApprovals();
}, () => { refreshCounts(); refreshApprovals(); });

async function refreshApprovals() {
  try {
    const { approvals, omitted = 0 } = await get("/api/approvals"), n = approvals.length + omitted;
    if (state.approvals !== undefined && n > state.approvals) toast(plural(n, "call") + (n === 1 ? " waits" : " wait") + " for your approval.");
    state.approvals = n;
    setCount("approvals", n);
  } catch { /* the views tell it */ }
}

async function refreshCounts() {
  try {
    const status = await get("/api/status");
    setCount("dead", status.dead_letters);
    state.status = status;
  } catch { /* the views tell it */ }
}

async function start() {
  try {
    const s = await get("/api/state");
    state.readOnly = s.read_only;
    state.prefix = s.prefix;
    document.body.classList.toggle("read-only", s.read_only);
    document.getElementById("where").textContent = visible(s.server + (s.read_only ? " · read-only" : ""));
    document.getElementById("where").title = "version " + visible(s.version);
  } catch (error) {
    toast(error.message, "bad");
  }
  route();
  refreshCounts();
}
start();
