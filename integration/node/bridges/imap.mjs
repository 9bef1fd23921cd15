// imap.mjs: hands in the unread mails of a mailbox for a channel of the kind "email", and marks them
// as read. IMAP_HOST (HOST:PORT, with TLS), IMAP_USER, IMAP_PASSWORD, and IMAP_AUTHSERV, the name that
// the mail server writes first into the header Authentication-Results, such as mx.google.com; "none"
// accepts forged senders. The rest as bridge.mjs says.
import { ImapFlow } from "imapflow";
import { simpleParser } from "mailparser";
import { connect, log, retry, sleep, stopped } from "./bridge.mjs";

const { IMAP_HOST: address = "", IMAP_USER: user, IMAP_PASSWORD: pass, IMAP_AUTHSERV: authserv } = process.env;
const [, host, port] = address.match(/^(.*?)(?::(\d+))?$/);
if (!host || !user || !pass || !authserv) throw new Error("IMAP_HOST, IMAP_USER, IMAP_PASSWORD and IMAP_AUTHSERV are required");
const maxMail = 30 << 20, maxText = 64 << 10;

const bridge = await connect();

// isAuthentic reports whether the mail server says that the domain of the sender is authentic
// (DMARC, RFC 8601). Only its topmost header counts, because it adds its own above those that came
// with the mail. Quoted texts and comments may be chosen by the author.
export function isAuthentic(results) {
  for (let result of results) {
    for (let before = ""; before !== result;) { // comments nest
      before = result;
      result = result.replace(/"(?:\\.|[^"\\])*"|\((?:\\.|[^()\\])*\)/gs, "");
    }
    const [name, ...methods] = result.split(";").map((part) => part.trim().split(/\s/)[0].toLowerCase());
    if (name !== authserv.toLowerCase()) continue;
    const dmarc = methods.filter((method) => method.startsWith("dmarc="));
    return dmarc.length > 0 && dmarc.every((method) => method === "dmarc=pass");
  }
  return false;
}

// senderOf returns the sender of a mail, or why it is ignored. A program must not answer what
// another program sent, or they would write to each other for ever.
function senderOf(mail, allowed) {
  const lines = (name) => mail.headerLines.filter(({ key }) => key === name).map(({ line }) => line.slice(name.length + 1).trim());
  const from = mail.from?.value ?? [];
  const automatic = lines("auto-submitted").some((value) => value.toLowerCase() !== "no");
  if (from.length !== 1 || !from[0].address || lines("from").length !== 1) return { reason: "it has not one sender" };
  const sender = from[0].address;
  if (!allowed.some((to) => to.toLowerCase() === sender.toLowerCase())) return { sender, reason: "the channel does not name the sender" };
  if (automatic || lines("precedence").length > 0 || lines("list-id").length > 0) return { sender, reason: "a program sent it" };
  if (authserv !== "none" && !isAuthentic(lines("authentication-results"))) return { sender, reason: "the mail server does not say that the sender is authentic (dmarc=pass)" };
  return { sender };
}

// unquoted returns the text without the mail that it answers, which programs quote at its end below
// a line such as "On Monday, Ann wrote:".
function unquoted(text) {
  const lines = text.split("\n");
  let end = lines.length;
  while (end > 0 && (lines[end - 1].startsWith(">") || !lines[end - 1].trim())) end--;
  if (end === lines.length || end === 0) return text;
  if (lines[end - 1].trim().endsWith(":")) end--;
  return lines.slice(0, end).join("\n").trim() || text;
}

// handIn hands in a mail of an allowed sender.
async function handIn(source, sender) {
  const mail = await simpleParser(source, { skipImageLinks: true });
  const id = /^<[^<>\s]{1,500}>$/.test(mail.messageId ?? "") ? mail.messageId : `mail-${mail.date?.getTime()}-${source.length}`;
  const files = await Promise.all(mail.attachments.map((f) => bridge.attach(f.filename ?? "file", f.content.length, () => f.content)));
  const whole = unquoted((mail.text ?? "").replaceAll("\r\n", "\n").trim()), text = whole.slice(0, maxText);
  const subject = mail.subject && !mail.inReplyTo && `Subject: ${mail.subject.replace(/\s+/g, " ").slice(0, 1000)}`;
  const context = [subject, whole !== text && "(The mail is longer than what you see of it.)"].filter(Boolean).join("\n\n");
  if (text || context || files.length > 0) await bridge.accept({ id, chat_id: sender, user: sender, text, context, files });
}

const ignored = new Set();

// look hands in the unread mails of a mailbox. It looks at the header first: a mailbox may have
// thousands of other mails.
async function look(client, allowed) {
  const from = allowed.filter((to) => /^[\x20-\x7e]+$/.test(to)).map((to) => ({ from: to }));
  const query = from.length === allowed.length ? { seen: false, ...from.length > 1 ? { or: from } : from[0] } : { seen: false };
  for (const uid of await client.search(query, { uid: true }) || []) {
    if (ignored.has(uid)) continue;
    const { headers, size } = await client.fetchOne(uid, { headers: true, size: true }, { uid: true });
    const { sender, reason = size > maxMail ? "it is too large" : "" } = senderOf(await simpleParser(headers), allowed);
    if (reason) {
      ignored.add(uid);
      log("ignored a mail", { from: sender?.slice(0, 80), reason });
      continue;
    }
    const { source } = await client.fetchOne(uid, { source: true }, { uid: true });
    await handIn(source, sender);
    await client.messageFlagsAdd(uid, ["\\Seen"], { uid: true });
  }
}

// read looks at the mailbox again and again, until the connection ends.
async function read(works) {
  const client = new ImapFlow({ host, port: Number(port ?? 993), secure: true, auth: { user, pass, loginMethod: "LOGIN" }, logger: false, disableAutoIdle: true });
  client.on("error", (err) => log("the mailbox failed", { error: err.message }));
  try {
    const { chats } = await bridge.chats();
    await client.connect();
    await client.mailboxOpen("INBOX");
    while (!stopped.aborted && client.usable) {
      await look(client, Object.keys(chats));
      works();
      await sleep(Number(process.env.IMAP_INTERVAL_MS ?? 15_000));
    }
    await client.logout();
  } catch (err) {
    client.close();
    throw new Error(err.responseText ?? err.message);
  }
}

while (!stopped.aborted) await retry("the mailbox", read);
await bridge.close();
