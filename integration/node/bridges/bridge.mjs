// bridge.mjs: what every bridge shares. A bridge is at the other end of a channel of the kind
// "bridge": it delivers the channel's notifications to a network, and hands in what users write.
// docs/agents.md describes the requests.
//
// The environment has NATS_URL, and NATS_USER and NATS_PASSWORD or NATS_NKEY (a file), as
// `stevedore up --print-env` sets it, and STEVEDORE_CHANNEL, the name of the channel.
import { readFileSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
import { jetstream } from "@nats-io/jetstream";
import { connect as dial, nkeyAuthenticator, usernamePasswordAuthenticator } from "@nats-io/transport-node";

const env = process.env;
const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => stop.abort());
export const stopped = stop.signal;

export const log = (message, fields = {}) => console.error(JSON.stringify({ time: new Date().toISOString(), message, ...fields }));

export const sleep = (ms) => wait(ms, undefined, { signal: stopped }).catch(() => {}); // at most until the stop

// Permanent is thrown by a network that will never take a message; refusesAll means that it takes none of this program. The
// retryAfter of an error, in seconds, is the pause that the network asks for.
export class Permanent extends Error {
  constructor(code, message, refusesAll = false) {
    super(message);
    Object.assign(this, { code, refusesAll });
  }
}

// report tells the worker, for its status, why nothing is "receiving" or "sending", or with "" that it works.
// It is told the same again after a minute, and what it did not hear with the next report.
const said = {};
let worker = async () => {}, told = Promise.resolve();
export function report(what, error) {
  const last = said[what];
  if (stopped.aborted || error === last?.error && (error === "" || Date.now() - last.at < 60_000)) return;
  said[what] = { error, at: Date.now() };
  told = told.then(() => worker({ [what]: error })).catch(() => { delete said[what]; });
}

// retry repeats what fails, because the network or the way to it is down, until isFinal(err). Work that goes on calls
// works() when it works.
export async function retry(name, work, isFinal = () => false) {
  let pause = 500;
  const works = () => { pause = 500; report("receiving", ""); };
  for (;; pause = Math.min(pause * 2, 30_000)) {
    try {
      const done = await work(works);
      works();
      return done;
    } catch (err) {
      if (stopped.aborted || isFinal(err)) throw err;
      const error = String(err?.message ?? err);
      const seconds = err.retryAfter || (err instanceof Permanent ? 60 : pause / 1000);
      log(`cannot reach ${name}`, { error, pause_s: seconds });
      report("receiving", `${name}: ${error}`);
      await sleep(seconds * 1000);
      if (stopped.aborted) throw err;
    }
  }
}

// inTurn handles the events of a network one after the other, and gives up one that the network refuses: the others wait.
let last = Promise.resolve();
export const inTurn = (name, work) => last = last.then(() => retry(name, work, (err) => err instanceof Permanent && !err.refusesAll)).catch((err) => {
  log("an event is lost", { error: err.message });
  report("receiving", `${name}: an event is lost: ${err.message}`);
});

// show shows the user of a network what became of his answer, which is stored.
export const show = (name, work) => retry(name, work, (err) => err instanceof Permanent).catch((err) => log("cannot show an answer", { error: err.message }));

// login connects to the server that NATS_URL and its like name, each behind the prefix.
export function login(prefix = "") {
  const [servers, user, password, nkey] = ["URL", "USER", "PASSWORD", "NKEY"].map((name) => env[`${prefix}NATS_${name}`]);
  const authenticator = nkey ? nkeyAuthenticator(readFileSync(nkey).slice(0, 58)) : user ? usernamePasswordAuthenticator(user, password) : undefined;
  return dial({ servers, authenticator, maxReconnectAttempts: -1, waitOnFirstConnect: true });
}

export async function connect() {
  const channel = env.STEVEDORE_CHANNEL;
  const prefix = env.STEVEDORE_PREFIX ?? "stevedore";
  if (!channel) throw new Error("STEVEDORE_CHANNEL names no channel");
  const nc = await login();

  // ask sends a request until it has a final answer, at most some times.
  async function ask(request, tries = Infinity) {
    const body = JSON.stringify(request);
    if (Buffer.byteLength(body) > nc.info.max_payload) throw new Permanent("too_large", "the message is larger than the server takes");
    for (let pause = 200; ; pause = Math.min(pause * 2, 10_000)) {
      let failure;
      try {
        const answer = (await nc.request(`${prefix}.rpc.message.${channel}`, body, { timeout: 40_000 })).json();
        if (!answer.error) return answer;
        failure = answer.error;
      } catch (err) {
        failure = err; // for example, no worker is there
      }
      if (!(failure instanceof Error) && !["failed", "stopping"].includes(failure.code)) throw new Permanent(failure.code, failure.message);
      if (stopped.aborted || --tries < 1) throw new Error(failure.message);
      log("a request is repeated", { error: String(failure.message) });
      await sleep(pause);
    }
  }

  worker = (request) => ask(request, 1);

  // fit takes the largest files from a message until the server takes it.
  function fit(message) {
    while (Buffer.byteLength(JSON.stringify(message)) > nc.info.max_payload - 1024) {
      const [largest] = [...(message.files ?? []), message.voice].filter((f) => f?.data).sort((a, b) => b.data.length - a.data.length);
      if (!largest) return;
      delete largest.data;
      largest.problem = "there is no room for it beside the other files; send it alone";
    }
  }

  // accept hands in a message of a user, and reports whether it is stored. Strangers get no answer.
  async function accept(message) {
    try {
      fit(message);
      await ask(message);
      return true;
    } catch (err) {
      if (!(err instanceof Permanent)) throw err;
      if (err.code !== "not_allowed") log("a message is not accepted", { chat: message.chat_id, error: err.message });
      return false;
    }
  }

  // decide answers an approval, and returns a text for the user.
  async function decide(chat, user, key, approve) {
    try {
      return (await ask({ chat_id: chat, user, decide: { key, approve } })).text;
    } catch (err) {
      if (!(err instanceof Permanent)) throw err;
      return err.message;
    }
  }

  // attach returns a file for accept. A request has one file with data at most of this size.
  async function attach(name, size, read) {
    const most = nc.info.max_payload / 2; // as base64, with the rest of the request
    if (size > most) return { name, problem: `it has more than ${Math.floor(most / 1024)} KiB` };
    try {
      return { name, data: Buffer.from(await read()).toString("base64") };
    } catch (err) {
      return { name, problem: "it cannot be downloaded" };
    }
  }

  // content yields the pieces of the file of a notification.
  async function content(msg, notification, size) {
    const pieces = [];
    for (let offset = 0; offset < size;) {
      const piece = Buffer.from((await ask({ file: notification, subject: msg.subject, offset })).data ?? "", "base64");
      if (piece.length === 0) throw new Error("the file has ended early");
      pieces.push(piece);
      offset += piece.length;
    }
    return Buffer.concat(pieces);
  }

  // deliver delivers notifications and drafts to a network until the process stops:
  //   send(chat, text, {id, markup, key, approval}) sends a message and returns its id; with id, it
  //     edits that message. key is the same for each attempt, approval asks for buttons.
  //   remove(chat, id), sendFile(chat, name, bytes, key), typing(chat)
  // or, if it shows no messages: show(notification, prepared), draft(draft)
  async function deliver(network) {
    const chains = new Map(); // by chat: what is sent one after the other
    const drafts = new Map(); // by chat: {call, id} of the message that grows
    const inTurn = (chat, work) => {
      const next = (chains.get(chat) ?? Promise.resolve()).then(work).catch((err) => log("cannot deliver", { error: String(err?.message ?? err) }));
      chains.set(chat, next);
      next.then(() => { if (chains.get(chat) === next) chains.delete(chat); });
      return next;
    };
    const callOf = (n) => JSON.stringify([n.session, n.call]);
    const done = []; // the calls that were answered last: a draft may come later

    async function showDraft(draft) {
      if (network.draft) return network.draft(draft);
      const open = drafts.get(draft.chat_id);
      if (draft.done) {
        if (open?.call === callOf(draft)) await drop(draft.chat_id);
      } else if (done.includes(callOf(draft)) || open && open.call !== callOf(draft)) {
        return;
      } else if (!draft.text) {
        await network.typing?.(draft.chat_id);
      } else {
        const id = await network.send(draft.chat_id, draft.text, { id: open?.id, markup: draft.markup });
        drafts.set(draft.chat_id, { call: callOf(draft), id, since: open?.since ?? Date.now() });
      }
    }

    async function drop(chat) {
      const { id } = drafts.get(chat);
      drafts.delete(chat);
      await network.remove(chat, id).catch((err) => log("cannot remove a draft", { error: err.message }));
    }

    // once sends the rest of a notification. state says what the network has of it.
    async function once(msg, notification, state) {
      state.shown ??= await ask({ prepare: notification, subject: msg.subject });
      if (network.show) return network.show(notification, state.shown);
      const { chat_id: chat, parts = [], markup, approval, file } = state.shown;
      if (!state.began) {
        const isAnswer = notification.kind === "result" && notification.call;
        const open = drafts.get(chat);
        if (isAnswer) done.splice(0, done.length, callOf(notification), ...done.slice(0, 99));
        // Nobody is notified of an edit, so it replaces only young drafts.
        if (open && isAnswer && open.call === callOf(notification) && Date.now() - open.since < 60_000) {
          drafts.delete(chat);
          state.replaces = open.id;
        } else if (open) await drop(chat);
        state.began = true;
      }
      for (; state.sent < parts.length; state.sent++) {
        const last = state.sent === parts.length - 1;
        const options = { id: state.sent === 0 ? state.replaces : undefined, markup, key: `${msg.seq} ${state.sent}`, approval: last ? approval : undefined };
        try {
          await network.send(chat, parts[state.sent], options);
        } catch (err) {
          if (!options.id || !(err instanceof Permanent)) throw err;
          await network.remove(chat, options.id).catch((err) => { if (!(err instanceof Permanent)) throw err; }); // it may be gone
          await network.send(chat, parts[state.sent], { ...options, id: undefined });
        }
      }
      if (file) {
        try {
          await network.sendFile(chat, file.name, await content(msg, notification, file.size), `${msg.seq} file`);
        } catch (err) {
          if (!(err instanceof Permanent)) throw err;
          await network.send(chat, `the file ${file.name} cannot be sent: ${err.code}; ${file.command}`, { key: `${msg.seq} refused` });
        }
      }
    }

    function decode(msg) {
      try {
        return msg.json();
      } catch (err) {
        throw new Permanent("undecodable", err.message);
      }
    }

    async function handle(msg) {
      const state = { sent: 0 };
      let attempts = msg.info.deliveryCount - 1; // of the programs before
      for (let pause = 1000; !stopped.aborted; pause = Math.min(pause * 2, 60_000)) {
        attempts++;
        try {
          await once(msg, decode(msg), state);
          report("sending", "");
          return msg.ack();
        } catch (err) {
          if (err instanceof Permanent && !err.refusesAll || Date.now() - Date.parse(msg.timestamp) > 24 * 3600_000) {
            log("gave up a notification", { seq: msg.seq, error: err.message });
            await ask({ reject: { sequence: msg.seq, attempts, code: err.code ?? "undeliverable", reason: err.message } });
            return msg.term();
          }
          log("a notification is sent again", { seq: msg.seq, error: err.message });
          report("sending", err.message);
          await sleep(err.retryAfter ? err.retryAfter * 1000 : pause);
        }
      }
      msg.nak();
    }

    const sub = nc.subscribe(`${prefix}.draft.${channel}`, {
      callback: (err, msg) => { if (!err) { const draft = msg.json(); inTurn(draft.chat_id, () => showDraft(draft)); } },
    });
    const { chat: home } = await ask({});
    // chatOf returns the chat of a notification whose body names none.
    const chatOf = (subject) => {
      const [token] = subject.slice(`${prefix}.notify.${channel}.`.length).split(".");
      return token === "" || token === "-" ? home : token;
    };
    const stream = `${prefix.toUpperCase().replaceAll(".", "_")}_OUTBOX`;
    const consumer = await jetstream(nc).consumers.get(stream, `notify-${channel}`);
    const messages = await consumer.consume({ max_messages: 100 });
    stopped.addEventListener("abort", () => messages.stop());
    const held = new Map(); // by sequence, until they are settled
    const leases = setInterval(() => held.forEach(({ msg }) => msg.working()), 1500);
    for await (const msg of messages) {
      if (held.has(msg.seq)) continue; // its lease ended before a report arrived
      let chat = chatOf(msg.subject);
      try { chat = msg.json().chat_id || chat; } catch { /* it is rejected */ }
      held.set(msg.seq, { msg, work: inTurn(chat, () => handle(msg)).then(() => held.delete(msg.seq)) });
    }
    await Promise.allSettled([...held.values()].map(({ work }) => work));
    clearInterval(leases);
    sub.unsubscribe();
  }

  return { ask, accept, decide, attach, deliver, chats: () => ask({}), maxRequest: () => nc.info.max_payload, close: () => nc.drain() };
}
