// Checks frameworks.mjs with tools of the form that each framework has, without the frameworks:
//
//   node frameworks_check.mjs WORKER DIRECTORY [NATS_URL]
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { forAI, forAgents, forClaude, forLangChain, openResults, ResultsError } from "./frameworks.mjs";

const [worker, dir, url] = process.argv.slice(2);
const rows = Array.from({ length: 3000 }, (_, i) => ({ id: i, name: `row ${i}`, ok: i !== 777 }));
const text = rows.map((r) => `line ${r.id}${r.ok ? "" : " ERROR disk full"}`).join("\n");
const idOf = (reference) => /artifact '([^']+)'/.exec(reference)?.[1] ?? assert.fail(`no reference: ${String(reference).slice(0, 300)}`);

async function exercise(results) {
  assert.equal(await results.offload("t", "short"), "short");
  const value = { short: true };
  assert.equal(await results.offload("t", value), value);
  const reference = await results.offload("search", text);
  assert.ok(reference.length < 2500, `the reference has ${reference.length} characters`);
  const id = idOf(reference);
  assert.match(await results.read({ id, grep: "ERROR" }), /line 777 ERROR disk full/);
  assert.match(await results.read({ id, lines: "2-3" }), /line 1\n.*line 2$/s);
  assert.match(await results.read({ id, lines: "-1" }), /line 2999/);
  let whole = "", page;
  for (let offset = 0; whole.length < text.length; offset = whole.length) {
    page = await results.read({ id, offset });
    const start = page.indexOf(text.slice(offset, offset + 40));
    assert.ok(start >= 0, `page at ${offset}: ${page.slice(0, 200)}`);
    let end = start;
    while (end < page.length && page[end] === text[offset + end - start]) end++;
    whole += page.slice(start, end);
  }
  assert.equal(whole, text);
  assert.match(await results.read({}), new RegExp(id));
  const data = "A".repeat(100_000), url = `data:image/png;base64,${data}`;
  const media = [{ type: "media", data, mediaType: "image/png" }, { type: "image_url", image_url: { url } }, { type: "input_image", image_url: url }, { type: "file", data, mimeType: "application/pdf" }];
  assert.deepEqual(await results.shorten("t", media), media);
  for (const whole of [media, media[2], { kind: "picture", data: new Uint8Array(100_000) }]) assert.equal(await results.offload("t", whole), whole);
  assert.match((await results.shorten("t", [{ type: "file", path: "a", content: text }]))[0].content, /artifact '/);
  const table = idOf(await results.offload("query", rows));
  assert.match(await results.read({ id: table, jq: "[.[] | select(.ok | not) | .name]" }), /row 777/);
  assert.match(await results.read({ id: table, sql: `SELECT count(*) AS n FROM "${table}" WHERE id < 100` }), /100/);
  await assert.rejects(results.read({ id: "nosuch", grep: "x" }), (err) => typeof err.code === "string");
  assert.match(await results.tool.run({ id, lines: "x" }), /want a range/);
  return id;
}

const options = { command: worker, data: join(dir, "data"), session: "check" };
const results = openResults(options);
await exercise(results);
console.log("ok: the core, over stdio");

// The same result has the same reference, also in another process, which reads what the first one stored.
const other = openResults(options);
const reference = await results.offload("search", text);
assert.equal(await other.offload("search", text), reference);
assert.match(await other.read({ id: idOf(reference), lines: "778" }), /ERROR disk full/);
await other.close();
await assert.rejects(other.read({}), (err) => err instanceof ResultsError && err.code === "closed");
const abort = new AbortController();
abort.abort(new Error("stop"));
await assert.rejects(results.read({ id: idOf(reference) }, { signal: abort.signal }), /stop/);
const late = new AbortController();
const reading = results.read({ id: idOf(reference), grep: "line" }, { signal: late.signal });
await new Promise((done) => setImmediate(done));
late.abort(new Error("too late"));
await reading.catch((err) => assert.match(err.message, /too late/)); // unless it was faster
assert.match(await results.read({ id: idOf(reference), lines: "1" }), /line 0/);
console.log("ok: references that do not change, and cancellation");

// Without the program, the model gets the result as it is.
const errors = [];
const missing = openResults({ command: join(dir, "nosuch"), onError: (err) => errors.push(err.code) });
assert.equal(await missing.offload("t", text), text);
await assert.rejects(missing.read({}), (err) => err.code === "not_installed");
assert.match(await missing.tool.run({}), /nosuch/);
const broken = openResults({ command: worker, args: ["--tools", "wrong"], onError: (err) => errors.push(err.code) });
assert.equal(await broken.offload("t", rows), rows);
assert.deepEqual(errors, ["not_installed", "closed"]);
const cycle = { of: "itself" };
cycle.of = cycle;
for (const value of [cycle, { n: 10n }]) assert.equal(await broken.offload("t", value), value);
assert.deepEqual(errors.slice(2), ["rejected", "rejected"]);
console.log("ok: without the program");

// Vercel AI SDK
const jsonSchema = (schema) => ({ jsonSchema: schema });
const execute = async () => rows;
const tools = forAI({ jsonSchema }, results, {
  rows: { execute }, small: { execute: async () => 7 },
  own: { execute, toModelOutput: ({ output }) => ({ type: "content", value: [{ type: "text", text: JSON.stringify(output) }, { type: "media", data: "AAAA", mediaType: "image/png" }] }) },
});
assert.equal(await tools.rows.execute(), rows);
const shown = await tools.rows.toModelOutput({ toolCallId: "1", input: {}, output: rows });
assert.equal(shown.type, "text");
assert.match(await tools.read_result.execute({ id: idOf(shown.value), jq: ".[777].name" }, {}), /row 777/);
assert.deepEqual(await tools.small.toModelOutput({ output: 7 }), { type: "json", value: 7 });
assert.deepEqual(await tools.small.toModelOutput({ output: undefined }), { type: "json", value: null });
const own = await tools.own.toModelOutput({ output: rows });
assert.ok(idOf(own.value[0].text) && own.value[1].data === "AAAA");
assert.equal(tools.read_result.inputSchema.jsonSchema.type, "object");

// LangChain
const middleware = forLangChain({ createMiddleware: (m) => m, tool: (run, definition) => ({ run, ...definition }) }, results);
const run = (name, content) => middleware.wrapToolCall({ toolCall: { name }, runtime: {} }, async () => ({ type: "tool", tool_call_id: "c", content }));
assert.ok(idOf((await run("search", text)).content));
assert.ok(idOf((await run("search", [{ type: "text", text }])).content[0].text));
assert.equal((await run("read_result", text)).content, text);
assert.equal((await run("search", "short")).content, "short");
assert.match(await middleware.tools[0].run({ id: idOf(reference), lines: "1" }), /line 0/);

// OpenAI Agents
const [search, reader] = forAgents({ tool: (t) => t }, results, [{ type: "function", name: "search", outputGuardrails: [] }]);
const check = (output) => search.outputGuardrails[0].run({ toolCall: { name: "search" }, output });
assert.ok(idOf((await check(text)).behavior.message));
assert.deepEqual(await check({ a: 1 }), { behavior: { type: "allow" } });
assert.match(await reader.execute({ id: idOf(reference), lines: "1" }), /line 0/);

// Claude Agent SDK
const { hooks: { PostToolUse: [{ hooks: [hook] }] }, mcpServers } = forClaude(results, options);
const post = async (tool_name, tool_response) => (await hook({ hook_event_name: "PostToolUse", tool_name, tool_response }, "toolu_1", {})).hookSpecificOutput?.updatedToolOutput;
const bash = await post("Bash", { stdout: text, stderr: "", interrupted: false, isImage: false });
assert.ok(idOf(bash.stdout) && bash.interrupted === false);
writeFileSync(join(dir, "whole.txt"), text);
const cut = await post("Bash", { stdout: text.slice(0, 100), stderr: "", persistedOutputPath: join(dir, "whole.txt"), persistedOutputSize: text.length });
assert.ok(idOf(cut.stdout) && !("persistedOutputPath" in cut));
assert.ok(idOf((await post("mcp__x__y", [{ type: "text", text }]))[0].text));
assert.equal(await post("Bash", { stdout: "short" }), undefined);
assert.equal(await post("Bash", { stdout: "x", persistedOutputPath: join(dir, "gone") }), undefined);
assert.equal(await post("mcp__stevedore__read_result", text), undefined);
const again = openResults({ command: mcpServers.stevedore.command, ...options, args: [] });
assert.match(await again.read({ id: idOf(bash.stdout), lines: "778" }), /ERROR/);
await again.close();
console.log("ok: the shapes of four frameworks");
await results.close();

if (url) {
  const { connect } = await import("./stevedore.mjs");
  const client = await connect(url, { session: "frameworks" });
  const onBus = openResults({ bus: client, minChars: 1000 });
  const wide = rows.map((r) => `line ${r.id}${r.ok ? "" : " ERROR disk full"}${" ".repeat(40)}`).join("\n");
  const ref = await onBus.offload("search", wide);
  assert.match(ref, /read_result\(id, grep\)/); // the model has no other tool
  const part = await onBus.read({ id: idOf(ref), lines: "1-3000" });
  const rest = await onBus.read({ id: idOf(ref), cursor: /continue with cursor="([^"]+)"/.exec(part)[1] });
  assert.match(rest, new RegExp(`^Lines ${+/Lines 1-(\d+)/.exec(part)[1] + 1}-`));
  await assert.rejects(onBus.read({ id: idOf(ref), jq: "." }), /not JSON.*read_result with grep/);
  assert.match(await onBus.read({ id: idOf(ref), grep: "ERROR" }), /line 777 ERROR/);
  assert.match(await onBus.read({ id: idOf(ref), lines: "778" }), /ERROR/);
  assert.match(await onBus.read({ id: idOf(ref), offset: 0 }), /line 0/);
  assert.match(await onBus.read({}), new RegExp(idOf(ref)));
  const big = JSON.stringify(Array.from({ length: 40_000 }, (_, i) => ({ id: i, name: `a row with number ${i}` })));
  const table = idOf(await onBus.offload("big table", big));
  assert.match(await onBus.read({ id: table, jq: ".[39999].name" }), /number 39999/);
  assert.match(await onBus.read({ id: table, sql: `SELECT max(id) AS m FROM "${table}"` }), /39999/);
  assert.doesNotMatch(await onBus.read({ offset: 1 }), new RegExp(table)); // the newest one
  await assert.rejects(onBus.read({ id: "nosuch", grep: "x" }), (err) => err.code === "not_found");
  // Calls of tools on the bus: progress and cancellation.
  const stop = new AbortController(), seen = [];
  const stopped = await client.call("agent", { prompt: "wait" }, { signal: stop.signal, onProgress: (p) => { seen.push(p); stop.abort(); } });
  assert.equal(stopped.outcome, "cancelled");
  assert.ok(seen.length > 0);
  await client.close();
  console.log("ok: over the bus");
}
