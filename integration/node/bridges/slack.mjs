// slack.mjs: a bot of a Slack app at the other end of a channel, by Socket Mode.
// SLACK_BOT_TOKEN (xoxb-...) and SLACK_APP_TOKEN (xapp-...); the rest as bridge.mjs says.
import { LogLevel, SocketModeClient } from "@slack/socket-mode";
import { WebClient } from "@slack/web-api";
import { connect, inTurn, log, Permanent, retry, show, sleep, stopped } from "./bridge.mjs";

const { SLACK_BOT_TOKEN: token, SLACK_APP_TOKEN: appToken, SLACK_API_URL: slackApiUrl } = process.env;
const bridge = await connect();
const web = new WebClient(token, { slackApiUrl, retryConfig: { retries: 0 }, rejectRateLimitedCalls: true, logLevel: LogLevel.ERROR, timeout: 30_000 });
const ofToken = ["invalid_auth", "not_authed", "token_revoked", "token_expired", "account_inactive"];
const threadAge = 7 * 24 * 3600; // of threads whose messages are read after an absence, in seconds
const temporary = ["ratelimited", "internal_error", "fatal_error", "service_unavailable", "request_timeout"];

// call calls a method of the web API. Its errors are those that deliver expects.
async function call(method, args = {}) {
  try {
    return await web.apiCall(method, args);
  } catch (err) {
    if (err.data?.error && !temporary.includes(err.data.error)) throw new Permanent(err.data.error, `${method}: ${err.data.error}`, ofToken.includes(err.data.error));
    throw err;
  }
}

const place = (chat) => {
  const [channel, thread] = chat.split("/");
  return { channel, ...thread && { thread_ts: thread } };
};

const buttons = (text, key) => [
  { type: "section", text: { type: "mrkdwn", text: text.slice(0, 3000) } },
  { type: "actions", elements: [
    { type: "button", text: { type: "plain_text", text: "✅ Yes" }, action_id: "yes", value: key },
    { type: "button", text: { type: "plain_text", text: "❌ No" }, action_id: "no", value: key },
  ] },
];

const network = {
  async send(chat, text, { id, markup, approval }) {
    const message = { ...place(chat), text, unfurl_links: false, unfurl_media: false, mrkdwn: Boolean(markup), ...approval && { blocks: buttons(text, approval) } };
    if (id && markup) return (await call("chat.update", { ...message, ts: id })).ts;
    if (id) await network.remove(chat, id); // Slack edits no text that is not mrkdwn
    return (await call("chat.postMessage", message)).ts;
  },
  async remove(chat, id) {
    await call("chat.delete", { channel: place(chat).channel, ts: id }).catch((err) => { if (err.code !== "message_not_found") throw err; });
  },
  async sendFile(chat, name, bytes) {
    const { upload_url: url, file_id: id } = await call("files.getUploadURLExternal", { filename: name, length: bytes.length });
    const sent = await fetch(url, { method: "POST", body: bytes });
    if (!sent.ok) throw new Error(`upload: ${sent.status}`);
    const { channel, thread_ts } = place(chat);
    await call("files.completeUploadExternal", { files: [{ id, title: name }], channel_id: channel, thread_ts });
  },
};

const { user_id: self } = await retry("Slack", () => call("auth.test"));

// plain returns the text of a message: <URL|LABEL>, <@USER> and <!here> are links, mentions and commands.
const plain = (text) => text.replace(/<([^<>|]+)(?:\|([^<>]*))?>/g, (_, target, label) => label && label !== target && target.includes("://") ? `${label} (${target})` : target)
  .replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&").trim();

// handle hands in a message. In channels, these are those that mention the bot.
async function handle(m) {
  const direct = m.channel.startsWith("D"), mention = `<@${self}>`;
  if (!["message", "app_mention"].includes(m.type) || m.bot_id || !m.user || m.user === self || !m.ts || ![undefined, "file_share", "thread_broadcast"].includes(m.subtype)) return;
  if (!direct && !m.text?.includes(mention)) return;
  const text = (m.text ?? "").trim();
  const files = await Promise.all((m.files ?? []).map((f) => bridge.attach(f.name ?? "file", f.size ?? 0, async () => {
    const url = new URL(f.url_private_download); // others must not see the token
    if (!url.hostname.endsWith(".slack.com")) throw new Error("it is not stored at Slack");
    const res = await fetch(url, { headers: { Authorization: `Bearer ${token}` }, redirect: "error" });
    if (!res.ok) throw new Error(res.statusText);
    return res.arrayBuffer();
  })));
  const chat = m.thread_ts && m.thread_ts !== m.ts ? `${m.channel}/${m.thread_ts}` : m.channel;
  await bridge.accept({ id: m.ts, chat_id: chat, position: m.ts, user: m.user, text: plain(text.startsWith(mention) ? text.slice(mention.length) : text), files, ...!direct && { from: m.user } });
}

// read returns the messages of all pages. Slack allows only some requests each minute, so each page is repeated for itself.
async function read(method, args) {
  const found = [];
  let cursor;
  do {
    const page = await retry("Slack", () => call(method, { ...args, limit: 200, cursor }), (err) => err instanceof Permanent);
    found.push(...page.messages ?? []);
    cursor = page.response_metadata?.next_cursor;
  } while (cursor);
  return found;
}

// missed returns the messages of a chat and of its threads that came after a position. The history has no messages of
// threads, but says of a message when the last reply to it came.
async function missed(channel, position) {
  const history = await read("conversations.history", { channel, oldest: String(Math.max(0, Number(position) - threadAge)) });
  const found = [...history];
  for (const { ts, latest_reply: latest } of history) if (latest > position) found.push(...await read("conversations.replies", { channel, ts, oldest: position }));
  return found.filter(({ ts }) => ts > position).sort((a, b) => a.ts < b.ts ? -1 : 1);
}

// catchUp hands in what was written while the bot was away. A chat that was never read begins now.
async function catchUp(begin) {
  let lost;
  for (const [channel, position] of Object.entries((await bridge.chats()).chats)) {
    if (Boolean(position) === begin) continue;
    try {
      if (begin) {
        const [last] = (await call("conversations.history", { channel, limit: 1 })).messages ?? [];
        await bridge.accept({ chat_id: channel, position: last?.ts ?? "1" });
      } else for (const m of await missed(channel, position)) await handle({ ...m, type: "message", channel });
    } catch (err) {
      if (!(err instanceof Permanent) || err.refusesAll) throw err;
      log("cannot read the history", { chat: channel, error: err.message });
      lost = err;
    }
  }
  if (lost && !begin) throw lost;
}

// listen gets events until the connection ends.
async function listen(works) {
  await catchUp(true);
  const socket = new SocketModeClient({ appToken, autoReconnectEnabled: false, logLevel: LogLevel.ERROR, clientOptions: { slackApiUrl, retryConfig: { retries: 0 } } });
  socket.on("slack_event", ({ ack, type, body }) => inTurn("Slack", async () => {
    const action = body.actions?.[0];
    if (type === "events_api") await handle(body.event);
    else if (action && ["yes", "no"].includes(action.action_id)) {
      const thread = body.message?.thread_ts && body.message.thread_ts !== body.message.ts ? `/${body.message.thread_ts}` : "";
      const text = await bridge.decide(body.channel.id + thread, body.user.id, action.value, action.action_id === "yes");
      await show("Slack", () => call("chat.update", { channel: body.channel.id, ts: body.message.ts, text: `${body.message.text}\n\n${text}`, blocks: [] }));
    }
    await ack().catch(() => {}); // the connection has ended: Slack sends the event again
  }));
  socket.on("connected", () => inTurn("Slack", () => catchUp(false)));
  const ended = new Promise((done) => socket.once("disconnected", done));
  const leave = () => socket.disconnect();
  stopped.addEventListener("abort", leave);
  try {
    await socket.start();
    log("connected to Slack");
    works();
    await ended;
  } finally {
    stopped.removeEventListener("abort", leave);
  }
}

const delivering = bridge.deliver(network);
while (!stopped.aborted) {
  await retry("Slack", listen);
  await sleep(1000);
}
await delivering;
await bridge.close();
