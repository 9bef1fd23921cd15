// The request of a turn to the model and the answer, as far as the log of the conversation has them.
import { h, replace, add, parse, button, count, plural, path } from "../dom.js";
import { get } from "../api.js";

const most = 50000; // characters of one text that the page shows; the copy has all
const notes = {
  too_large: "The system prompt and the tools of this run are not here: they are too large for its log.",
  missing: "The system prompt and the tools of this run are not here: an earlier version wrote its log.",
};

// cut is a text, or its start.
const cut = text => [text.slice(0, most), text.length > most ? h("p.hint", {}, "These are the first " + count(most) + " of " + count(text.length) + " characters; a copy has all.") : null];
const pretty = v => JSON.stringify(v, null, 2);

// shown is a block of a message as people read it.
function shown(b) {
  const content = typeof b.content === "string" ? b.content : (b.content || []).map(shown).join("\n");
  switch (b.type) {
    case "text": return b.text;
    case "tool_use": return "calls " + b.name + " " + pretty(b.input);
    case "tool_result": return (b.is_error ? "error of " : "result of ") + b.tool_use_id + "\n" + content;
    case "image": return "[picture, " + count(((b.source || {}).data || "").length) + " characters of base64]";
    default: return pretty(b);
  }
}
const text = content => (typeof content === "string" ? content : (content || []).map(shown).join("\n\n"));
// titleOf is the start of a message in one line, with the names of the tools.
function titleOf(m, names) {
  const one = b => (b.type === "tool_use" ? "calls " + b.name + " " + JSON.stringify(b.input) : b.type === "tool_result" ? "result of " + (names.get(b.tool_use_id) || b.tool_use_id) + ": " + text(b.content) : shown(b));
  const blocks = typeof m.content === "string" ? [{ type: "text", text: m.content }] : m.content || [];
  return (blocks.some(b => b.type === "tool_result") ? "" : m.role + ": ") + blocks.map(b => one(b).slice(0, 100).replace(/\s+/g, " ")).join(" · ").slice(0, 160);
}
const fold = (title, body) => h("details.fold", {}, h("summary", {}, title), body);
const pre = (label, body) => h("pre.result", { tabindex: "0", "aria-label": label }, cut(body));
const size = body => ", " + plural(body.length, "character");

// turn returns an element with the button that reads a turn, a step of a trace.
export function turn(step, session, signal) {
  const root = h("div.turn");
  async function read(e) {
    e.target.disabled = true;
    try {
      const t = await get("/api/sessions/" + path(step.session || session, "runs", step.id, step.turn), {}, signal);
      draw(t, parse(t.request), parse(t.answer));
    } catch (error) {
      e.target.disabled = false;
      if (error.name !== "AbortError") replace(root, e.target, h("p.problem", {}, error.message));
    }
  }
  function draw(t, request, answer) {
    const copy = (name, body) => button("Copy " + name, async e => {
      const b = e.currentTarget;
      await navigator.clipboard.writeText(body).then(() => { b.textContent = "Copied"; }, error => { b.textContent = "Cannot copy: " + error.message; });
    });
    const curl = "curl https://api.anthropic.com/v1/messages -H \"x-api-key: $ANTHROPIC_API_KEY\" -H 'anthropic-version: 2023-06-01' -H 'content-type: application/json' --data-binary @- <<'JSON'\n" + t.request + "\nJSON\n";
    const names = (request.tools || []).map(x => x.name);
    const called = new Map(request.messages.flatMap(m => (Array.isArray(m.content) ? m.content : []).filter(b => b.type === "tool_use").map(b => [b.id, b.name])));
    replace(root, h("div.line.wrap", {}, copy("as JSON", t.request), t.setup === "stored" && /^claude/.test(request.model || "") ? copy("as curl", curl) : null, copy("the answer", t.answer)),
      notes[t.setup] && h("p.problem", {}, notes[t.setup]),
      t.late ? h("p.problem", {}, "The last " + plural(t.late, "notice") + " came while the model answered, so the request may not have had " + (t.late === 1 ? "it." : "them.")) : null,
      request.system ? fold("System prompt" + size(request.system), pre("System prompt", request.system)) : null,
      names.length ? fold(plural(names.length, "tool") + ": " + names.join(", "), request.tools.map(x => fold(x.name, [h("p.words", {}, x.description || ""), pre("Schema of " + x.name, pretty(x.input_schema))]))) : null,
      fold(plural(request.messages.length, "message"), request.messages.map((m, i) => { const body = text(m.content); return fold(String(i + 1) + " " + titleOf(m, called) + size(body), pre("Message " + (i + 1), body)); })),
      h("h2", {}, "Answer"), pre("Answer", text(answer)));
    root.querySelector("button").focus();
  }
  return add(root, button("Request and answer", read));
}
