// System: workers, queues, streams with their fill, the server.
import { h, add, replace, time, bytes, count, plural, load, duration, empty, problem, loading, table, percent } from "../dom.js";
import { get } from "../api.js";

function show(main) {
  const abort = new AbortController();
  const body = h("div");
  add(main, [h("h1", {}, "System"), body]);
  function stream(s) {
    const kind = s.fill >= 0.95 ? "bad" : s.fill >= 0.8 ? "warn" : "done";
    return h("tr", {}, h("th", { scope: "row" }, s.name), h("td.fill", {}, s.max_bytes > 0 ? [load(s.fill, kind), h("span.num", {}, percent(s.fill))] : h("span.hint", {}, "no limit")),
      h("td.num", {}, bytes(s.bytes) + (s.max_bytes > 0 ? " of " + bytes(s.max_bytes) : "")), h("td.num", {}, count(s.messages)), h("td", {}, s.messages ? time(s.oldest) : "–"),
      h("td", {}, s.max_age_s ? duration(s.max_age_s * 1000) : "no limit"), h("td", {}, s.full), h("td", {}, String(s.replicas || 1) + (s.leader ? ", " + s.leader : "")));
  }
  const ended = w => Object.entries(w.ended).map(([k, n]) => count(n) + " " + k).join(", ") || "–";
  async function reload() {
    try {
      const s = await get("/api/status", {}, abort.signal);
      replace(body,
        s.problems.concat([...s.errors || [], ...s.notes || []].map(text => ({ text }))).map(p => problem(p, "system")),
        s.problems.length || (s.errors || []).length ? null : h("p.lead", {}, "Nothing needs attention."),
        h("section", {}, h("h2", {}, "Workers"), s.workers.length ? table("Workers", ["Worker", "Queues", "Running", "Ended", "Models", "Up for", "Version"], s.workers.map(w => h("tr", {}, h("th", { scope: "row" }, w.name), h("td", {}, w.queues.join(", ")), h("td.num", {}, count(w.running)), h("td", {}, ended(w)), h("td", {}, (w.models || []).join(", ") || "–"), h("td", {}, time(w.started, "since")), h("td", {}, w.version))))
          : empty("No worker answers", "Calls stay queued until a worker takes them. Start one:", "stevedore serve --server " + s.server.url)),
        h("section", {}, h("h2", {}, "Queues"), s.queues.length ? table("Queues", ["Queue", "Waiting", "Running", "Taken", "Workers"], s.queues.map(q => h("tr", {}, h("th", { scope: "row" }, q.name), h("td.num", {}, count(q.waiting)), h("td.num", {}, count(q.running)), h("td.num", {}, count(q.taken)), h("td.num", {}, q.workers || (q.pulling ? "another program" : "none")))))
          : h("p.hint", {}, "A worker creates its queue when it starts.")),
        h("section", {}, h("h2", {}, "Streams"), table("Streams", ["Stream", "Fill", "Size", "Messages", "Oldest", "Kept for", "If full", "Replicas"], s.streams.map(stream))),
        h("section", {}, h("h2", {}, "Server"), h("dl.facts", {}, [["Address", s.server.url], ["NATS", s.server.version], ["Name", s.server.name], ["Cluster", s.server.cluster || "none"], ["Round trip", s.server.rtt_ms.toFixed(2) + " ms"]].map(([k, v]) => h("div", {}, h("dt", {}, k), h("dd", {}, v))))));
    } catch (e) { if (e.name !== "AbortError") replace(body, h("p.problem", {}, e.message)); }
  }
  replace(body, loading("div"));
  reload();
  const timer = setInterval(() => { if (!document.hidden && !body.contains(document.activeElement)) reload(); }, 3000);
  return () => { clearInterval(timer); abort.abort(); };
}

export default { name: "system", title: "System", key: "y", show };
