// nats-agent.mjs: makes each chat of a channel an agent of the Synadia Agent Protocol for NATS,
// version 0.3 (https://github.com/synadia-ai/synadia-agents): a micro service with the name "agents".
//
//   agents.prompt.<agent>.<owner>.<session>        a prompt; chunks go to its reply subject
//   agents.status.<agent>.<owner>.<session>        a request for a heartbeat
//   agents.hb.<agent>.<owner>.<session>            heartbeats
//   agents.answer.<agent>.<owner>.<session>.<key>  answers to queries, which are approvals
//
// The id of a message is the reply subject of its prompt, so an answer finds its client also after a
// crash of this program. It may come twice; a client reads until the first terminator.
//
// AGENT_OWNER, and AGENT_NAME if it is not "stevedore". AGENT_NATS_URL and its like name the server of
// the clients, and a login there, if it is not that of Stevedore. The rest as bridge.mjs says.
import { headers } from "@nats-io/transport-node";
import { connect, log, login, Permanent, stopped } from "./bridge.mjs";
import { offer } from "./micro.mjs";

const { AGENT_OWNER: owner, AGENT_NAME: agent = "stevedore", AGENT_NATS_URL: own, AGENT_INTERVAL_S: seconds = "20" } = process.env;
const maxFiles = 20, maxError = 200, maxEnded = 200;
const usage = '{"prompt":"...","attachments":[{"filename":"...","content":"BASE64"}]} or the text alone';

const bridge = await connect();
const nc = await login(own ? "AGENT_" : "");

// The server does not check whether a client may publish to the reply subject of its request.
const isInbox = (subject) => /^(_|[^.]*inbox)[^.]*\./i.test(subject ?? ""); // with a dot, its calls have ids of their own
const inboxOf = (call) => call?.startsWith("message-") ? call.slice("message-".length) : "";

const chunk = (inbox, type, data) => nc.publish(inbox, JSON.stringify({ type, data }));

function fail(inbox, code, description) { // does not end the stream
  const h = headers();
  h.set("Nats-Service-Error-Code", code);
  h.set("Nats-Service-Error", description.replace(/\s+/g, " ").slice(0, maxError));
  nc.publish(inbox, "", { headers: h });
}

// decode reads the body of a prompt or of the answer to a query.
function decode(data) {
  const refuse = (reason) => { throw new Permanent("400", `${reason}: want ${usage}`); };
  let text, body;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(data);
  } catch {
    refuse("the prompt is not valid UTF-8");
  }
  try {
    body = text.trimStart().startsWith("{") && JSON.parse(text);
  } catch { /* it is a text */ }
  const { prompt, attachments } = body || { prompt: text };
  if (typeof (prompt ?? "") !== "string" || !prompt?.trim()) refuse("prompt missing or empty");
  if (!Array.isArray(attachments ?? []) || attachments?.length > maxFiles) refuse(`attachments: want a list of at most ${maxFiles}`);
  const files = attachments?.map((file, i) => {
    const { filename: name, content: data } = file ?? {};
    if (typeof name !== "string" || ["", ".", ".."].includes(name) || /[/\\]/.test(name)) refuse(`attachment ${i} has an unsafe filename`);
    if (typeof data !== "string" || Buffer.from(data, "base64").toString("base64") !== data) refuse(`attachment ${i} has invalid base64 content`);
    return { name, data };
  });
  return { text: prompt, files };
}

// decision reads yes, no, or no and a reason.
function decision(text) {
  const [, word, reason = ""] = text.trim().match(/^(yes|y|no|n)[,.!]*(?:\s+(.*))?$/is) ?? [];
  const approve = /^y/i.test(word ?? "");
  return word && !(approve && reason) ? { approve, reason } : undefined;
}

// serve starts the agent of a chat. position names the prompts that were open when the program ended, and the last ones
// before; an earlier version named only the open ones.
function serve(session, position) {
  const subject = (verb) => ["agents", verb, agent, owner, session].join(".");
  const stored = JSON.parse(position || "[]");
  const open = new Map((stored.open ?? stored).map((inbox) => [inbox, Promise.resolve()])); // acknowledgements by reply subject
  const ended = stored.ended ?? []; // the reply subjects of the last prompts
  const tell = (err) => log("something is not stored, or a client is not reached", { session, error: err.message });
  let saved = Promise.resolve();
  const save = () => saved = saved.then(() => bridge.ask({ chat_id: session, position: JSON.stringify({ open: [...open.keys()], ended }) })).catch(tell);

  async function prompt(msg) {
    const inbox = msg.reply;
    if (!isInbox(inbox)) return log("ignored a prompt whose reply subject is not an inbox", { session, reply: inbox });
    let acknowledged;
    try {
      const message = decode(msg.data);
      if (open.has(inbox) || ended.includes(inbox)) throw new Permanent("id_mismatch", "this reply subject belongs to another prompt; use a new one for each");
      acknowledged = bridge.ask({ id: inbox, chat_id: session, user: session, ...message }, 8).then(() => chunk(inbox, "status", "ack"));
      open.set(inbox, acknowledged);
      await acknowledged;
      await save();
    } catch (err) {
      if (acknowledged) open.delete(inbox);
      log("a prompt is not accepted", { session, error: err.message });
      fail(inbox, err.code === "id_mismatch" ? "409" : err instanceof Permanent ? "400" : "500", err.message);
      if (!open.has(inbox)) nc.publish(inbox); // the stream of another prompt goes on
    }
  }

  async function finish(inbox, error) {
    if (error) fail(inbox, "500", error);
    nc.publish(inbox);
    await nc.flush();
    ended.unshift(inbox);
    ended.splice(maxEnded);
    if (open.delete(inbox)) await save();
  }

  const query = (inbox, key, text) => chunk(inbox, "query", { id: key, reply_subject: `${subject("answer")}.${key}`, prompt: text });

  async function answer(msg) {
    const key = msg.subject.split(".").at(-1), [oldest] = open.keys();
    let said;
    try { said = decision(decode(msg.data).text); } catch { /* it is no answer */ }
    if (said) await bridge.ask({ chat_id: session, user: session, decide: { key, ...said } });
    else if (oldest) query(oldest, key, "Answer yes, no, or no and a reason.");
  }

  // show sends a notification: the answer to a prompt to its client, all else to the oldest open one.
  async function show(n, { approval, file }) {
    const own = inboxOf(n.call), [oldest] = open.keys(), inbox = isInbox(own) ? own : oldest;
    if (!inbox) throw new Permanent("undeliverable", "no client waits for an answer of this session");
    await open.get(inbox)?.catch(() => {}); // the acknowledgement comes first
    const notes = [n.note, n.artifact && `the file ${file?.name ?? n.artifact.artifact_id} ${file ? `is saved by: ${file.command}` : "cannot be sent"}`];
    const text = [n.text, ...notes.filter(Boolean).map((note) => `(${note.replace(/\s+/g, " ")})`)].join("\n");
    if (approval) query(inbox, approval, text);
    else for (const part of text.match(/.{1,12000}/gsu) ?? []) chunk(inbox, "response", part);
    if (inbox === own && !approval) return finish(inbox, n.is_error && text);
    await nc.flush();
  }

  const heartbeat = () => JSON.stringify({ agent, owner, session, instance_id: service.id, ts: new Date().toISOString(), interval_s: Number(seconds) });

  // beat sends a heartbeat, and keepalives: the protocol's clients give up a stream that is silent for 60 s.
  function beat() {
    nc.publish(subject("hb"), heartbeat());
    for (const [inbox, acknowledged] of open) acknowledged.then(() => chunk(inbox, "status", "keepalive"), () => {});
  }

  // sweep ends the streams of the prompts that get no answer, such as those that were cancelled.
  async function sweep() {
    for (const inbox of [...open.keys()]) {
      const { outcome } = await bridge.ask({ chat_id: session, unanswered: inbox }, 1);
      if (outcome && open.has(inbox)) await finish(inbox, outcome !== "completed" && `the run ended without an answer: ${outcome}`);
    }
  }

  const payload = Math.min(nc.info.max_payload, bridge.maxRequest()) - 4096 >> 10; // without what the bridge adds
  const metadata = { agent, owner, session, protocol_version: "0.3" };
  let last = Promise.resolve(); // prompts stay in their order
  const service = offer(nc, { name: "agents", version: "0.3.0", description: "a durable agent of Stevedore", metadata, queue: "agents" }, [
    {
      name: "prompt", subject: subject("prompt"), metadata: { attachments_ok: "true", max_payload: `${payload}KB` },
      work: (msg) => last = last.then(() => prompt(msg)),
    },
    { name: "status", subject: subject("status"), work: (msg) => { msg.respond(heartbeat()); } },
    { name: "answer", subject: `${subject("answer")}.*`, work: answer },
  ], tell);

  beat();
  let sweeping = sweep().catch(tell);
  const timer = setInterval(() => {
    beat();
    sweeping = sweeping.then(sweep).catch(tell);
  }, Number(seconds) * 1000);

  async function end() {
    clearInterval(timer);
    await service.end();
    await last;
    await saved;
  }

  const draft = ({ call, status }) => { if (status && open.has(inboxOf(call))) chunk(inboxOf(call), "status", status); };
  return { show, draft, end };
}

const { chats } = await bridge.chats();
for (const token of [agent, owner, ...Object.keys(chats)]) {
  if (!/^[A-Za-z0-9_][A-Za-z0-9_-]*$/.test(token ?? "")) throw new Error(`AGENT_OWNER, AGENT_NAME or a chat: ${token} is no token of a subject`);
}
const agents = new Map(Object.entries(chats).map(([session, position]) => [session, serve(session, position)]));
log("the agents listen");
await bridge.deliver({
  draft: (draft) => agents.get(draft.chat_id)?.draft(draft),
  async show(n, prepared) {
    const to = agents.get(prepared.chat_id);
    if (!to) throw new Permanent("undeliverable", `the channel has no session ${prepared.chat_id}`);
    await to.show(n, prepared);
  },
});
await Promise.all([...agents.values()].map((to) => to.end()));
await nc.drain();
await bridge.close();
