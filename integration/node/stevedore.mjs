// A client of Stevedore for agents and tools in TypeScript and JavaScript: copy this file and
// stevedore.d.mts. stevedore.d.mts describes each function.
import { randomUUID } from "node:crypto";
import { connect as dial, headers } from "@nats-io/transport-node";

// These tools act in Stevedore's own conversations and channels, not in those of your agent.
export const internalTools = ["agent", "subagent", "spawn", "tasks", "cron", "message"];

export class StevedoreError extends Error {
  constructor(code, message) { super(message); this.code = code; }
}

// denied returns the error for what the server does not permit; undefined for other errors.
function denied(err, what) {
  const cause = [err, err?.cause].find((e) => e?.name === "PermissionViolationError" || e?.name === "AuthorizationError");
  return cause && new StevedoreError("permission_denied", `${what}: the server does not permit it: ${cause.message}`);
}

const isToken = (id) => /^(?!-|h_)[\w-]{1,64}$/i.test(id);
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

export async function connect(url = process.env.NATS_URL ?? "nats://127.0.0.1:4222", options = {}) {
  const urls = url.split(",").map((one) => new URL(one.includes("://") ? one.trim() : `nats://${one.trim()}`));
  const { session = "default", queue = "default", prefix = "stevedore", nats = {} } = options;
  if (!isToken(session)) throw new StevedoreError("invalid_arguments", `the session ${JSON.stringify(session)} is not of the form [A-Za-z0-9_-]{1,64}, not beginning with - or h_`);
  const user = options.user ?? (decodeURIComponent(urls[0].username) || process.env.NATS_USER);
  const pass = options.password ?? (decodeURIComponent(urls[0].password) || process.env.NATS_PASSWORD);
  const tls = urls[0].protocol === "tls:" ? {} : undefined;
  let nc;
  for (const start = Date.now(); !nc;) {
    nc = await dial({ servers: urls.map((u) => u.host), user, pass, tls, name: "stevedore.mjs", maxReconnectAttempts: -1, reconnectTimeWait: 500, ...nats }).catch(async (err) => {
      if (/authorization/i.test(err.message) || Date.now() - start > 10_000) throw new Error(`connect to ${urls[0].host}: ${err.message}. Start "stevedore up", and run: eval "$(stevedore up --print-env)"`, { cause: err });
      await sleep(500);
    });
  }
  const reconnects = new Set(); // functions to call after each reconnect
  (async () => { for await (const { type } of nc.status()) if (type === "reconnect") reconnects.forEach((f) => f(null)); })();

  // ask repeats a request, which is lost if the worker that has it dies: first after 10 s, later each
  // minute. A call has an id, so a repetition does not run it again.
  async function ask(subject, body, timeout = 60_000) {
    for (let start = Date.now(), wait = 10_000; ; wait = Math.min(60_000, 2 * wait)) {
      const left = Math.max(1, Math.min(wait, start + timeout - Date.now()));
      const answer = nc.request(`${prefix}.rpc.${subject}`, JSON.stringify(body), { timeout: left }).catch((err) => err);
      let again;
      const msg = await Promise.race([answer, new Promise((f) => reconnects.add(again = f))]);
      reconnects.delete(again);
      const refused = denied(msg, subject);
      if (refused) throw refused;
      const code = msg?.headers?.get("Nats-Service-Error-Code");
      if (msg?.data && !code) return msg.json();
      if (code && !["stopping", "timeout"].includes(code)) throw new StevedoreError(code, msg.json().error.message);
      if (nc.isClosed()) throw msg ?? new Error("the connection is closed");
      if (Date.now() - start > timeout - 500) throw new StevedoreError("timeout", `no answer on ${subject} within ${timeout} ms (${msg?.message ?? code}); a call goes on: call again with the same id`);
      if (msg) await sleep(500);
    }
  }
  const read = async (what, body) => (await ask(`artifact.${session}.${what}`, body)).text;
  const stream = `${prefix.toUpperCase().replaceAll(".", "_")}_RESULTS`;

  // upload stores what no message can hold.
  async function upload(name, text) {
    const { Objm } = await import("@nats-io/obj").catch((err) => { throw new StevedoreError("too_large", `the result exceeds the server's limit for a message; run: npm install @nats-io/obj (${err.message})`); });
    const store = await new Objm(nc).open(`${prefix.replaceAll(".", "_")}_blobs`);
    await store.put({ name }, new Blob([text]).stream());
    return name;
  }

  return {
    nc, session,
    async tools(format = "anthropic", exclude = internalTools) {
      if (!["anthropic", "openai"].includes(format)) throw new StevedoreError("invalid_arguments", `the format is ${JSON.stringify(format)}; want "anthropic" or "openai"`);
      const list = new Map((await ask("tools.ls", { queue })).tools.map((t) => [t.name, t]));
      const wanted = [...list.values()].filter((t) => !exclude.includes(t.name));
      for (const t of wanted) t.parameters ??= (await ask("tools.show", { queue, tool: t.name })).tools[0].parameters ?? { type: "object" };
      return wanted.map(({ name, description, parameters }) => format === "openai"
        ? { type: "function", function: { name, description, parameters } }
        : { name, description, input_schema: parameters });
    },
    async call(tool, args = {}, { id = randomUUID(), timeout = 3_600_000, signal, onProgress, ...fields } = {}) {
      if (!/^[\w-]{1,64}$/.test(tool)) { // a model can invent any name
        const text = `there is no tool ${JSON.stringify(tool.slice(0, 80))}`;
        return { id, session, tool, outcome: "failed", is_error: true, for_llm: text, error: { code: "unknown_tool", message: text } };
      }
      signal?.throwIfAborted();
      const progress = onProgress && isToken(id) && nc.subscribe(`${prefix}.progress.${session}.${id}`, { callback: (err, msg) => { if (!err) onProgress(msg.json()); } });
      let ended = false;
      const cancel = async () => {
        for (let again = true; again && !ended; await sleep(200)) { // not_found: the call is not stored yet
          again = await ask(`task.${session}.cancel`, { id }).then(() => false, (err) => err.code === "not_found");
        }
      };
      signal?.addEventListener("abort", cancel, { once: true });
      try {
        return await ask(`call.${queue}.${tool}${isToken(id) ? `.${session}.${id}` : ""}`, { ...fields, id, session, args }, timeout);
      } finally {
        ended = true;
        signal?.removeEventListener("abort", cancel);
        progress?.unsubscribe();
      }
    },
    async offload(tool, text, { id = `raw-${randomUUID()}`, ...fields } = {}) {
      if (!isToken(id)) throw new StevedoreError("invalid_arguments", `the id ${JSON.stringify(id)} is not of the form [A-Za-z0-9_-]{1,64}, not beginning with - or h_`);
      const subject = `${tool}.${session}.${id}`, body = { ...fields, id, session };
      if (Buffer.byteLength(text) < nc.info.max_payload / 4) body.for_llm = text; // escapes make it longer
      else body.object = await upload(`${session}/${id}`, text);
      for (let start = Date.now(), again = start; ; await sleep(Date.now() - start < 2000 ? 20 : 300)) {
        if (Date.now() >= again) { // the stream keeps the first one
          const ack = await nc.request(`${prefix}.raw.${queue}.${subject}`, JSON.stringify(body), { timeout: 5000 }).catch((err) => err);
          if (denied(ack, subject)) throw denied(ack, subject);
          again = Date.now() + (ack?.data ? 5000 : 500);
        }
        const stored = await nc.request(`$JS.API.DIRECT.GET.${stream}`, JSON.stringify({ last_by_subj: `${prefix}.result.${session}.${id}` }), { timeout: 5000 }).catch(() => {});
        if (stored?.data.length && !stored.headers?.code) return stored.json();
        if (Date.now() - start > 60_000) throw new StevedoreError("timeout", `no worker shortened the result of ${tool} within a minute`);
      }
    },
    task: (id) => ask(`task.${session}.get`, { id }),
    cancel: (id) => ask(`task.${session}.cancel`, { id }),
    artifacts: (more = {}) => read("query", more),
    jq: (artifact_id, query, more = {}) => read("jq", { artifact_id, query, ...more }),
    sql: (sql, more = {}) => read("sql", { sql, ...more }),
    lines: (artifact_id, start_line, end_line, more = {}) => read("lines", { artifact_id, start_line, end_line, ...more }),
    grep: (artifact_id, pattern, more = {}) => read("grep", { artifact_id, pattern, ...more }),
    page: (artifact_id, offset = 0, limit = 15_000) => read("get", { artifact_id, offset, limit }),

    completions(after) {
      const subject = `completion.${session}.*`;
      const sequence = (msg) => Number(msg?.headers?.get("Nats-Sequence") ?? 0);
      let notify, news = []; // null: read from the stream what was missed
      const add = (msg) => { news.push(msg); notify?.(); };
      async function stored(query) {
        while (!nc.isClosed()) {
          const msg = await nc.request(`$JS.API.DIRECT.GET.${stream}`, JSON.stringify(query), { timeout: 5000 }).catch((err) => denied(err, subject));
          if (msg instanceof Error) throw msg;
          if (msg) return msg;
          await sleep(200);
        }
      }
      const sub = nc.subscribe(`${prefix}.stored.${subject}`, { callback: (err, msg) => add(err ? denied(err, subject) ?? err : msg) });
      reconnects.add(add);
      const events = (async function* () {
        try {
          yield; // for the call of next below
          let last = after ?? sequence(await latest);
          if (after === undefined) for (const msg of news) if (sequence(msg)) last = Math.min(last, sequence(msg) - 1); // it came meanwhile
          news.unshift(null);
          while (!nc.isClosed()) {
            if (news.length === 0) await new Promise((done) => { notify = done; });
            const msg = news.shift() ?? await stored({ seq: last + 1, next_by_subj: `${prefix}.${subject}` });
            if (msg instanceof Error) throw msg;
            if (sequence(msg) <= last) continue; // it was read before, or nothing was missed
            if (!msg.subject.includes(".stored.")) news.unshift(null);
            yield { ...msg.json(), sequence: last = sequence(msg) };
          }
        } finally { sub.unsubscribe(); reconnects.delete(add); }
      })();
      const latest = after === undefined ? stored({ last_by_subj: `${prefix}.${subject}` }) : undefined;
      latest?.catch(() => {}); // next reports it
      events.next();
      return events;
    },

    async serve(subject, definition, run) {
      let refused;
      const answer = (callback) => ({ queue: "tools", callback: async (err, msg) => {
        if (err) return void (refused = denied(err, subject) ?? err);
        try {
          const result = await callback(msg);
          msg.respond(typeof result === "string" ? result : JSON.stringify(result ?? ""));
        } catch (err) {
          const h = headers();
          h.set("Nats-Service-Error-Code", err instanceof StevedoreError ? err.code : "tool_failed");
          h.set("Nats-Service-Error", String(err.message).replaceAll(/\s+/g, " ").slice(0, 1000));
          msg.respond("", { headers: h });
        }
      } });
      nc.subscribe(`${subject}.definition`, answer(() => definition));
      nc.subscribe(subject, answer((msg) => { const call = msg.json(); return run(call.args ?? {}, call); }));
      await nc.flush();
      if (refused) throw refused;
    },
    close: () => nc.drain(),
  };
}
