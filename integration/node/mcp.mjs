// Real MCP clients and servers with "stevedore mcp" and "stevedore mcp wrap".
//
//   node mcp.mjs WORKER DIRECTORY [all]      DIRECTORY is empty
//
// The inspector is a process for each command. Without "all", it lists the tools of one server only, and
// calls none of the server whose results are small.
//
// Each client (the inspector, both lines of the TypeScript SDK, ext-tasks) lists tools,
// calls one, gets a big result as a reference with a link, reads the link and uses the
// tools that read artifacts. It ends with status 0 only if all answers were right.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync, existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as Stdio1 } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport as HTTP1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { Client as Client2, StreamableHTTPClientTransport as HTTP2 } from "@modelcontextprotocol/client";
import { StdioClientTransport as Stdio2 } from "@modelcontextprotocol/client/stdio";
import { createTaskSessionFromClient, resultFromTaskOutcome } from "@modelcontextprotocol/ext-tasks/client";

const [worker, dir, all] = process.argv.slice(2);
const packages = join(dirname(fileURLToPath(import.meta.url)), "node_modules", "@modelcontextprotocol");
const inspector = join(packages, "inspector-cli", "build", "index.js");
const everything = join(packages, "server-everything", "dist", "index.js");
const filesystem = join(packages, "server-filesystem", "dist", "index.js");
const data = join(dir, "data");
const files = join(dir, "files");
mkdirSync(files);
const lines = Array.from({ length: 20000 }, (_, i) => `line ${i}${i === 777 ? " ERROR disk full" : ""}`);
writeFileSync(join(files, "big.txt"), lines.join("\n") + "\n");
writeFileSync(join(files, "small.txt"), "small\n");

const ok = (what) => console.log(`ok: ${what}`);
const started = [];
process.on("exit", () => started.forEach((p) => p.kill("SIGKILL")));

const text = (res) => res.content.find((c) => c.type === "text").text;
const linkOf = (res) => {
  const link = res.content.find((c) => c.type === "resource_link");
  assert.ok(link, `no link in ${JSON.stringify(res).slice(0, 500)}`);
  assert.ok(JSON.stringify(res).length < 20000, "the result is not small");
  return link;
};

// readAll reads all pages of an artifact.
async function readAll(read, uri) {
  let pages = "";
  while (uri) {
    const { contents } = await read(uri);
    pages += contents[0].text;
    uri = contents[0]._meta?.["stevedore/next"];
  }
  return pages;
}

// reading reads an artifact by line and by pattern: with the tools of the worker, or with the
// one tool that wrap adds.
async function reading(call, id, reader) {
  const [grep, range] = reader === "read_result"
    ? [[reader, { id, grep: "ERROR" }], [reader, { id, lines: "3-4" }]]
    : [["grep_knowledge", { artifact_id: id, pattern: "ERROR" }], [reader, { artifact_id: id, start_line: 3, end_line: 4 }]];
  assert.match(text(await call(...grep)), /line 777 ERROR disk full/);
  assert.match(text(await call(...range)), /line 3/);
}

// Servers over stdio: the arguments of the worker, a tool, a small call and a big one.
const servers = {
  "stevedore mcp": { args: ["mcp", "--data", data, "--workspace", files, "--no-sync"], list: "read_file",
    small: ["read_file", { path: "small.txt" }, /small/], big: ["shell", { command: "cat big.txt" }] },
  "wrap server-filesystem": { args: ["mcp", "wrap", "--data", data, "--", "node", filesystem, files], list: "read_text_file",
    small: ["read_text_file", { path: join(files, "small.txt") }, /small/], big: ["read_text_file", { path: join(files, "big.txt") }] },
  "wrap server-everything": { args: ["mcp", "wrap", "--data", data, "--", "node", everything], list: "get-sum",
    small: ["get-sum", { a: 2, b: 3 }, /5/] },
};

// exercise does what every client must be able to do.
async function exercise(what, server, client) {
  const call = (name, args) => client.callTool({ name, arguments: args });
  const tools = (await client.listTools()).tools.map((t) => t.name);
  const reader = what.includes("wrap") ? "read_result" : "get_knowledge_by_lines";
  assert.ok(tools.includes(server.list) && tools.includes(reader), `${what}: tools ${tools}`);
  assert.match(text(await call(server.small[0], server.small[1])), server.small[2]);
  if (server.big) {
    const res = await call(...server.big);
    const link = linkOf(res);
    const pages = await readAll((uri) => client.readResource({ uri }), link.uri);
    assert.ok(pages.startsWith(lines.join("\n") + "\n"), `${what}: the pages have ${pages.length} characters`); // the shell adds a line
    await reading(call, link.name, reader);
    const listed = (await client.listResources()).resources.map((r) => r.uri);
    if (what.includes("stevedore mcp")) assert.ok(listed.includes(link.uri), `${what}: resources ${listed}`);
  }
  ok(what);
}

const v1 = async (transport) => { const c = new Client1({ name: "sdk1", version: "1" }); await c.connect(transport); return c; };
const v2 = async (transport) => {
  const c = new Client2({ name: "sdk2", version: "1" }, { versionNegotiation: { mode: "auto" } });
  await c.connect(transport);
  return c;
};

// The inspector starts the server for each command. Its own options must precede "--",
// which it does not pass on.
async function inspect(command, ...options) {
  const end = command.includes("--") ? command.indexOf("--") : command.length;
  const args = [inspector, ...command.slice(0, end), ...options, ...command.slice(end)];
  const { stdout } = await promisify(execFile)("node", args, { maxBuffer: 64 << 20 });
  return JSON.parse(stdout);
}
const pairs = (args) => Object.entries(args).flatMap(([k, v]) => ["--tool-arg", `${k}=${v}`]);

const everythings = {}; // the clients of server-everything, by SDK
await Promise.all(Object.entries(servers).map(async ([name, server]) => {
  // A session, so that the second command finds the artifact of the first one.
  const args = server.args.toSpliced(server.args[1] === "wrap" ? 2 : 1, 0, "--session", "inspector");
  const target = [worker, ...args];
  if (all || name === "stevedore mcp") {
    const { tools } = await inspect(target, "--method", "tools/list");
    assert.ok(tools.some((t) => t.name === server.list), name);
  }
  if (server.big) {
    const link = linkOf(await inspect(target, "--method", "tools/call", "--tool-name", server.big[0], ...pairs(server.big[1])));
    const page = await inspect(target, "--method", "resources/read", "--uri", link.uri);
    assert.match(page.contents[0].text, /^line 0\nline 1\n/);
  }
  if (all || server.big) ok(`inspector, ${name}`);
  for (const [sdk, connect, Stdio] of [["sdk 1", v1, Stdio1], ["client 2", v2, Stdio2]]) {
    const client = await connect(new Stdio({ command: worker, args: server.args, stderr: "ignore" }));
    await exercise(`${sdk}, stdio, ${name}`, server, client);
    if (server.big) await client.close();
    else everythings[sdk] = client;
  }
}));

// Over HTTP.
writeFileSync(join(dir, "token"), "alice-0123456789abcdef\n");
async function listening(command, args, pattern, env = {}) {
  const p = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, ...env } });
  started.push(p);
  let out = "";
  return new Promise((resolve, reject) => {
    const read = (chunk) => {
      out += chunk;
      const m = out.match(pattern);
      if (m) resolve(m[1] ?? m[0]);
    };
    p.stdout.on("data", read);
    p.stderr.on("data", read);
    p.on("exit", () => reject(new Error(`${command} ${args} ended: ${out}`)));
  });
}
const url = new URL(await listening(worker, ["mcp", "--http", "127.0.0.1:0", "--token", `alice=file:${join(dir, "token")}`,
  "--data", data, "--workspace", files, "--no-sync"], /(http:\S+\/mcp)/));
const requestInit = { headers: { Authorization: "Bearer alice-0123456789abcdef" } };
const client1 = await v1(new HTTP1(url, { requestInit }));
await exercise("sdk 1, HTTP, stevedore mcp", servers["stevedore mcp"], client1);
const client2 = await v2(new HTTP2(url, { requestInit }));
assert.equal(client2.getProtocolEra(), "modern");
await exercise("client 2, HTTP, stevedore mcp", servers["stevedore mcp"], client2);
const wrapURL = new Stdio1({ command: worker, stderr: "inherit", args: ["mcp", "wrap", "--data", data, "--header", `Authorization=Bearer alice-0123456789abcdef`, url.href] });
const wrapped = await v1(wrapURL);
const names = (await wrapped.listTools()).tools.map((t) => t.name);
assert.ok(names.includes("read_file") && names.includes("read_result"), `wrap URL: ${names}`);
assert.match(text(await wrapped.callTool({ name: "read_file", arguments: { path: "small.txt" } })), /small/);
await wrapped.close();
ok("sdk 1, wrap URL");

// A call that takes long is a task. Another session of the client finds it again.
const framing = { protocolVersion: "2026-07-28", clientInfo: { name: "ext-tasks", version: "1" }, clientCapabilities: {} };
let id = 0;
async function rawDispatch(request, options) {
  const { method, params } = request;
  const headers = { ...requestInit.headers, "Content-Type": "application/json", Accept: "application/json, text/event-stream",
    "MCP-Protocol-Version": framing.protocolVersion, "Mcp-Method": method };
  const name = params.name ?? params.taskId;
  if (name) headers["Mcp-Name"] = name;
  const res = await fetch(url, { method: "POST", headers, signal: options?.signal, body: JSON.stringify({ jsonrpc: "2.0", id: ++id, method, params }) });
  const body = await res.text();
  const message = JSON.parse(body.startsWith("{") ? body : body.match(/^data: (\{.*)$/m)[1]);
  return message.error ? { kind: "error", error: message.error } : { kind: "result", result: message.result };
}
const session = createTaskSessionFromClient(client2, { endpointId: "test", rawDispatch, v2RequestFraming: framing });
const quick = await session.callTool("read_file", { path: "small.txt" });
assert.equal(quick.kind, "immediate");
const long = await session.callTool("shell", { command: "until [ -e go ]; do sleep 0.05; done; echo went >> runs; cat big.txt" });
assert.equal(long.kind, "task");
let reference;
await long.handoff((r) => { reference = r; });
// session.close() would cancel the task.
const client3 = await v2(new HTTP2(url, { requestInit }));
const later = createTaskSessionFromClient(client3, { endpointId: "test", rawDispatch, v2RequestFraming: framing });
const resumed = await later.resumeTask(reference);
writeFileSync(join(files, "go"), "");
const { outcome } = await resumed.settle();
linkOf(resultFromTaskOutcome(outcome));
assert.equal(readFileSync(join(files, "runs"), "utf8"), "went\n");
const endless = await later.callTool("shell", { command: "sleep 1000" });
await endless.cancel();
assert.equal((await endless.settle()).outcome.status, "cancelled");
await later.close();
ok("ext-tasks: immediate, task, task found again, cancelled");

// Progress, and a cancelled request that ends the command.
const stdio1 = await v1(new Stdio1({ command: worker, args: servers["stevedore mcp"].args, stderr: "ignore" }));
const legacy2 = new Client2({ name: "sdk2", version: "1" }, { versionNegotiation: { mode: "legacy" } });
await legacy2.connect(new HTTP2(url, { requestInit }));
assert.equal(legacy2.getProtocolEra(), "legacy");
for (const [sdk, client] of [["sdk 1 stdio", stdio1], ["sdk 1 HTTP", client1], ["client 2 HTTP", client2], ["client 2 legacy HTTP", legacy2]]) {
  const abort = new AbortController();
  const beats = join(files, `${sdk}.beats`);
  const ended = client.callTool({ name: "shell", arguments: { command: `while :; do echo >> '${sdk}.beats'; sleep 0.1; done` } },
    ...(sdk.startsWith("sdk 1") ? [undefined] : []), { signal: abort.signal });
  const count = () => (existsSync(beats) ? readFileSync(beats).length : 0);
  while (count() === 0) await new Promise((r) => setTimeout(r, 20));
  abort.abort();
  await assert.rejects(ended);
  for (let before = -1, end = Date.now() + 20_000; before !== count(); await new Promise((r) => setTimeout(r, 1000))) {
    assert.ok(Date.now() < end, `${sdk}: the command goes on after its request was cancelled`);
    before = count();
  }
  ok(`cancellation, ${sdk}`);
}

// A server that writes down which requests are cancelled.
writeFileSync(join(dir, "server.mjs"), `
  import { appendFileSync } from "node:fs";
  import { createInterface } from "node:readline";
  const say = (m) => console.log(JSON.stringify({ jsonrpc: "2.0", ...m }));
  for await (const line of createInterface({ input: process.stdin })) {
    const { id, method, params } = JSON.parse(line);
    if (method === "initialize") say({ id, result: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "x", version: "1" } } });
    else if (method === "tools/list") say({ id, result: { tools: [{ name: "wait", inputSchema: { type: "object" } }] } });
    else if (method === "tools/call") appendFileSync(process.argv[2], "called " + JSON.stringify(id) + "\\n");
    else if (method === "notifications/cancelled") appendFileSync(process.argv[2], "cancelled " + JSON.stringify(params.requestId) + "\\n");
    else if (id !== undefined) say({ id, error: { code: -32601, message: "Method not found" } });
  }
`);
for (const [sdk, connect, Stdio] of [["sdk 1", v1, Stdio1], ["client 2", v2, Stdio2]]) {
  const client = everythings[sdk];
  const seen = [];
  await client.callTool({ name: "trigger-long-running-operation", arguments: { duration: 0.2, steps: 4 } },
    ...(sdk === "sdk 1" ? [undefined] : []), { onprogress: (p) => seen.push(p.progress) });
  assert.ok(seen.length >= 3, `${sdk}: progress ${seen}`);
  const abort = new AbortController();
  const ended = client.callTool({ name: "trigger-long-running-operation", arguments: { duration: 1000, steps: 1000 } },
    ...(sdk === "sdk 1" ? [undefined] : []), { signal: abort.signal, onprogress: () => abort.abort() });
  await assert.rejects(ended);
  assert.match(text(await client.callTool({ name: "get-sum", arguments: { a: 1, b: 1 } })), /2/);
  await client.close();
  // The server is told which request is cancelled, over stdio and over HTTP.
  const wait = ["--", "node", join(dir, "server.mjs")];
  const token = join(dir, "token");
  for (const over of ["stdio", "HTTP"]) {
    const log = join(dir, `${sdk}.${over}.log`);
    const transport = over === "stdio"
      ? new Stdio({ command: worker, args: ["mcp", "wrap", "--data", data, ...wait, log], stderr: "ignore" })
      : new (sdk === "sdk 1" ? HTTP1 : HTTP2)(new URL(await listening(worker, ["mcp", "wrap", "--http", "127.0.0.1:0", "--token", `alice=file:${token}`, "--data", data, ...wait, log], /(http:\S+\/mcp)/)), { requestInit });
    const client = await connect(transport);
    const abort = new AbortController();
    const ended = client.callTool({ name: "wait", arguments: {} }, ...(sdk === "sdk 1" ? [undefined] : []), { signal: abort.signal });
    const read = () => (existsSync(log) ? readFileSync(log, "utf8") : "");
    while (!read().endsWith("\n")) await new Promise((r) => setTimeout(r, 20));
    abort.abort();
    await assert.rejects(ended);
    for (const end = Date.now() + 20_000; !/^called (.+)\ncancelled \1\n$/.test(read()); await new Promise((r) => setTimeout(r, 20))) {
      assert.ok(Date.now() < end, `${sdk}, ${over}: the server got ${read()}`);
    }
    await client.close();
  }
  ok(`progress and cancellation through wrap, ${sdk}`);
}

// A wrapped server over HTTP does what it does over stdio.
const wrapHTTP = new URL(await listening(worker, ["mcp", "wrap", "--http", "127.0.0.1:0", "--token", `alice=file:${join(dir, "token")}`,
  "--data", data, "--", "node", filesystem, files], /(http:\S+\/mcp)/));
for (const [what, client] of [["sdk 1", await v1(new HTTP1(wrapHTTP, { requestInit }))], ["client 2", await v2(new HTTP2(wrapHTTP, { requestInit }))]]) {
  await exercise(`${what}, HTTP, wrap server-filesystem`, servers["wrap server-filesystem"], client);
  await client.close();
}
assert.equal((await fetch(wrapHTTP, { method: "POST" })).status, 401);
ok("all");
await stdio1.close();
await client1.close();
await legacy2.close();
await client2.close();
await client3.close();
process.exit(0);
