// discord.mjs: a bot of a Discord application at the other end of a channel. It needs no privileged
// intents. DISCORD_TOKEN; the rest as bridge.mjs says.
import { createHash } from "node:crypto";
import { REST } from "@discordjs/rest";
import { WebSocketManager } from "@discordjs/ws";
import { connect, inTurn, log, Permanent, report, retry, show, stopped } from "./bridge.mjs";

const { DISCORD_TOKEN: token, DISCORD_API_URL: api } = process.env;
const intents = 1 << 9 | 1 << 12; // messages in servers and direct ones
const suppressEmbeds = 4, texts = [0, 19];
const threads = [10, 11, 12], forums = [15, 16], parents = [0, 5, ...forums]; // types of channels: a forum has only threads, others have none

const bridge = await connect();
const rest = new REST({ version: "10", retries: 0, timeout: 30_000, ...api && { api } }).setToken(token);

// call calls the web API. Its errors are those that deliver expects.
async function call(method, path, options) {
  try {
    return await rest.request({ method, fullRoute: path, ...options });
  } catch (err) {
    if (err.status === 401) rest.setToken(token); // which the library has removed
    if (err.status >= 400 && err.status < 500 && ![408, 429].includes(err.status)) throw new Permanent(`refused_${err.status}`, `${err.status} ${err.message}`, err.status === 401);
    throw err;
  }
}

const messages = (chat) => `/channels/${chat.split("/").at(-1)}/messages`;
const nonce = (key) => ({ nonce: createHash("sha256").update(key).digest("hex").slice(0, 24), enforce_nonce: true });
const buttons = (key) => [{ type: 1, components: [{ type: 2, style: 3, label: "Yes", custom_id: `yes:${key}` }, { type: 2, style: 4, label: "No", custom_id: `no:${key}` }] }];

const network = {
  // Discord drops a message that it gets again within minutes.
  async send(chat, text, { id, key, approval }) {
    const body = { content: text, allowed_mentions: { parse: [] }, flags: suppressEmbeds, ...approval && { components: buttons(approval) }, ...!id && key && nonce(key) };
    return (await call(id ? "PATCH" : "POST", messages(chat) + (id ? `/${id}` : ""), { body })).id;
  },
  async remove(chat, id) {
    await call("DELETE", `${messages(chat)}/${id}`).catch((err) => { if (err.code !== "refused_404") throw err; });
  },
  async sendFile(chat, name, data, key) {
    await call("POST", messages(chat), { files: [{ name, data }], body: nonce(key) });
  },
  typing: (chat) => call("POST", messages(chat).replace(/messages$/, "typing")),
};

let self;
const channels = new Map(); // the chat of each channel of a server: threads have their own

async function chatOf(channel) {
  if (!channels.has(channel)) {
    const { type, parent_id: parent } = await call("GET", `/channels/${channel}`);
    channels.set(channel, threads.includes(type) ? `${parent}/${channel}` : channel);
  }
  return channels.get(channel);
}

// handle hands in a message. In servers, these are those that mention the bot.
async function handle(m) {
  if (!texts.includes(m.type) || m.author.bot || m.guild_id && !m.mentions.some((user) => user.id === self)) return;
  let text = m.content.trim();
  for (const mention of [`<@${self}>`, `<@!${self}>`]) if (text.startsWith(mention)) text = text.slice(mention.length).trim();
  const files = await Promise.all((m.attachments ?? []).map((f) => bridge.attach(f.filename ?? "file", f.size, async () => {
    const res = await fetch(f.url, { redirect: "error" });
    if (!res.ok) throw new Error(res.statusText);
    return res.arrayBuffer();
  })));
  const quote = m.referenced_message?.content?.slice(0, 1000).trim();
  await bridge.accept({
    id: m.id, chat_id: m.guild_id ? await chatOf(m.channel_id) : m.channel_id, user: m.author.id, text, files, position: m.id,
    ...m.guild_id && { from: m.author.global_name ?? m.author.username }, ...quote && { context: `> ${quote.replaceAll("\n", "\n> ")}` },
  });
}

// missed returns the messages of a chat and of its threads that came after a position.
async function missed(chat, position) {
  const { guild_id: server, type } = await call("GET", `/channels/${chat}`), places = forums.includes(type) ? [] : [chat], found = [];
  for (const path of parents.includes(type) ? [`/guilds/${server}/threads/active`, `/channels/${chat}/threads/archived/public`] : []) {
    for (let before = {}; before;) { // the thread that was archived last is first
      const { threads, has_more: more } = await call("GET", path, { query: new URLSearchParams(before) });
      places.push(...threads.filter((t) => t.parent_id === chat && BigInt(t.last_message_id ?? 0) > BigInt(position)).map(({ id }) => id));
      const archived = more && threads.at(-1)?.thread_metadata.archive_timestamp;
      before = Date.parse(archived) > Number(BigInt(position) >> 22n) + 1_420_070_400_000 && { before: archived }; // an id has its time
    }
  }
  for (const place of new Set(places)) {
    for (let after = position, page; page?.length !== 0; after = page[0]?.id) { // the newest is first
      page = await call("GET", messages(place), { query: new URLSearchParams({ after, limit: "100" }) });
      found.push(...page.map((m) => ({ ...m, channel_id: place, guild_id: server })));
    }
  }
  return found.sort((a, b) => BigInt(a.id) < BigInt(b.id) ? -1 : 1);
}

// catchUp hands in what was written while the bot was away. A chat that was never read begins now.
async function catchUp(begin) {
  let lost;
  for (const [chat, position] of Object.entries((await bridge.chats()).chats)) {
    if (Boolean(position) === begin) continue;
    try {
      if (begin) {
        await bridge.accept({ chat_id: chat, position: (await call("GET", `/channels/${chat}`)).last_message_id || "1" });
        continue;
      }
      const found = await missed(chat, position);
      for (const m of found) await handle(m);
      if (found.length > 0) await bridge.accept({ chat_id: chat, position: found.at(-1).id });
    } catch (err) {
      if (!(err instanceof Permanent) || err.refusesAll) throw err;
      log("cannot read the history", { chat, error: err.message });
      lost = err;
    }
  }
  if (lost && !begin) throw lost;
}

// decide answers an approval by its buttons, and tells the user what became of it.
async function decide(press) {
  const [answer, key] = press.data?.custom_id?.split(":") ?? [];
  if (!["yes", "no"].includes(answer)) return;
  const chat = press.guild_id ? await chatOf(press.channel_id) : press.channel_id;
  const text = await bridge.decide(chat, (press.member?.user ?? press.user).id, key, answer === "yes");
  await show("Discord", () => call("POST", `/interactions/${press.id}/${press.token}/callback`, { body: { type: 7, data: { content: `${press.message.content}\n\n${text}`, components: [] } } }));
}

await retry("Discord", () => catchUp(true));
const delivering = bridge.deliver(network);
const gateway = new WebSocketManager({ token, intents, rest: { get: (path) => call("GET", path) } });
gateway.on("ready", ({ user }) => { self = user.id; inTurn("Discord", () => catchUp(false)); log("connected to Discord"); });
gateway.on("resumed", () => report("receiving", ""));
gateway.on("socketError", (err) => report("receiving", `Discord: ${err.message}`)); // it connects again
// An error means that Discord refuses the token or the intents for good (4004, 4010 to 4014). It allows 1,000 logins a day.
let refuse = () => {};
gateway.on("error", (err) => refuse(Object.assign(new Permanent("refused", `the gateway refuses the bot: ${err.message}`, true), { retryAfter: 300 })));
gateway.on("dispatch", ({ t, d }) => {
  if (t === "MESSAGE_CREATE") inTurn("Discord", () => handle(d));
  if (t === "INTERACTION_CREATE") inTurn("Discord", () => decide(d));
});
await retry("Discord", async (works) => {
  const ended = new Promise((done, fail) => { refuse = fail; stopped.addEventListener("abort", done); });
  await Promise.race([gateway.connect(), ended]);
  works();
  await ended;
}).catch(() => {}); // the process stops
await gateway.destroy();
await delivering;
await bridge.close();
