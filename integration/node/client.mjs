// A client of Stevedore that knows nothing but NATS subjects and JSON.
//
//   node client.mjs URL      the URL is what "stevedore up" prints
//
// It takes the way of an agent loop that is written in another language: it
// publishes calls and results, reads the light results, and reads back what was
// offloaded. It ends with status 0 only if every answer was as it should be.

import assert from "node:assert/strict";
import { connect } from "@nats-io/transport-node";
import { DeliverPolicy, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { Objm } from "@nats-io/obj";

// The credential stands in the URL; this library wants it apart.
const url = new URL(process.argv[2]);
const nc = await connect({
  servers: url.host,
  user: decodeURIComponent(url.username),
  pass: decodeURIComponent(url.password),
  name: "node client",
});
const js = jetstream(nc);
const session = "node";

// publish puts an event into its stream, on the subject that names the call.
async function publish(tool, event) {
  const body = typeof event === "string" ? event : JSON.stringify(event);
  const subject = `${tool}.${session}.${event.id ?? "unnamed"}`;
  const ack = await js.publish(subject, body);
  assert.ok(ack.seq > 0, `${subject}: not stored`);
}

// nextOn returns the next message on a subject, as a plain subscriber sees it.
function nextOn(subject) {
  const sub = nc.subscribe(subject, { max: 1, timeout: 60_000 });
  const next = (async () => {
    for await (const msg of sub) return msg.json();
  })();
  return nc.flush().then(() => ({ next }));
}

// fromStream reads the result of a call from the stream, whenever it was or
// will be published.
async function fromStream(id) {
  const jsm = await jetstreamManager(nc);
  const { name } = await jsm.consumers.add("STEVEDORE_RESULTS", {
    filter_subject: `stevedore.result.${session}.${id}`,
    deliver_policy: DeliverPolicy.All,
    ack_policy: "none",
    inactive_threshold: 60_000_000_000,
  });
  const consumer = await js.consumers.get("STEVEDORE_RESULTS", name);
  const msg = await consumer.next({ expires: 60_000 });
  assert.ok(msg, `no result of ${id}`);
  return msg.json();
}

// ask sends a request to the service; what it refuses is an error with a code.
async function ask(subject, request) {
  const body = typeof request === "string" ? request : JSON.stringify(request);
  const msg = await nc.request(`stevedore.rpc.${subject}`, body, { timeout: 60_000 });
  const code = msg.headers?.get("Nats-Service-Error-Code");
  if (code) {
    assert.equal(msg.json().error.code, code, "the body and the header name the same code");
    throw Object.assign(new Error(msg.headers.get("Nats-Service-Error")), { code });
  }
  return msg.json();
}

const read = (what, request) => ask(`artifact.${session}.${what}`, request);

const steps = {
  async "publish a call, hear its result by subscription"() {
    const { next } = await nextOn(`stevedore.result.${session}.small`);
    await publish("stevedore.call.default.read_file", { id: "small", session, args: { path: "note.txt" } });
    const result = await next;
    assert.equal(result.outcome, "completed");
    assert.equal(result.for_llm, "A note.\n");
    assert.equal(result.id, "small");
    assert.equal(result.session, session);
    assert.equal(result.artifact, undefined);
  },

  async "publish a call with a big result, read the light one from the stream"() {
    await publish("stevedore.call.default.shell", { id: "big", session, args: { command: "seq 1 50000" } });
    const result = await fromStream("big");
    assert.equal(result.outcome, "completed");
    assert.ok(result.for_llm.length < 10_000, `${result.for_llm.length} characters are not light`);
    assert.equal(result.artifact.artifact_id, "big");
    assert.ok(result.artifact.size > 280_000);
  },

  async "read the artifact back"() {
    const page = await read("get", { artifact_id: "big", offset: 0, limit: 6 });
    assert.equal(page.content, "1\n2\n3\n");
    const lines = await read("lines", { artifact_id: "big", start_line: 40_000, end_line: 40_002 });
    assert.match(lines.text, /40000\n40001\n40002/);
    const found = await read("grep", { artifact_id: "big", pattern: "^4999[89]$", context_before: 1 });
    assert.match(found.text, /^Found 2 match\(es\)/);
    assert.match(found.text, /49998: 49998/);
    assert.match(found.text, /49997- 49997/);
    const list = await read("query", { filter: { tool_name: "shell" } });
    assert.match(list.text, /big/);
    const info = await read("info", {});
    assert.match(info.text, /big/);
  },

  async "hand in a result of one's own tool"() {
    const text = Array.from({ length: 20_000 }, (_, i) => `row ${i + 1}`).join("\n");
    await publish("stevedore.raw.default.my_tool", { id: "raw", session, for_llm: text });
    const result = await fromStream("raw");
    assert.equal(result.tool, "my_tool");
    assert.equal(result.outcome, "completed");
    assert.equal(result.artifact.artifact_id, "raw");
    assert.equal(result.artifact.lines, 20_000);
    const lines = await read("lines", { artifact_id: "raw", start_line: 777, end_line: 777 });
    assert.match(lines.text, /row 777/);
  },

  async "hand in content blocks"() {
    const part = (name) => ({ type: "text", text: `${name} `.repeat(20_000) });
    await publish("stevedore.raw.default.my_tool", { id: "blocks", session, content: [part("alpha"), part("beta")] });
    const result = await fromStream("blocks");
    assert.equal(result.outcome, "completed");
    assert.equal(result.artifact.artifact_id, "blocks");
    const found = await read("grep", { artifact_id: "blocks", pattern: "beta" });
    assert.match(found.text, /match/);
  },

  async "hand in an object that is too big for a message"() {
    const store = await new Objm(js).open("stevedore_blobs");
    const row = (i) => `object row ${String(i).padStart(8, "0")}\n`;
    const text = Array.from({ length: 200_000 }, (_, i) => row(i + 1)).join("");
    assert.ok(text.length > 3 * 1024 * 1024);
    await store.putBlob({ name: `${session}/upload-1` }, new TextEncoder().encode(text));
    await publish("stevedore.raw.default.my_tool", { id: "object", session, object: `${session}/upload-1` });
    const result = await fromStream("object");
    assert.equal(result.outcome, "completed", result.error?.message);
    assert.equal(result.artifact.size, text.length);
    const lines = await read("lines", { artifact_id: "object", start_line: 150_000, end_line: 150_000 });
    assert.match(lines.text, /object row 00150000/);
  },

  async "hand in an error of one's own tool"() {
    await publish("stevedore.raw.default.my_tool", { id: "sad", session, for_llm: "no such row", is_error: true });
    const result = await fromStream("sad");
    assert.equal(result.outcome, "failed");
    assert.equal(result.is_error, true);
    assert.equal(result.for_llm, "no such row");
  },

  async "submit and wait in one request"() {
    const result = await ask("call.default.list_dir", { id: "listed", session, args: { path: "." } });
    assert.equal(result.outcome, "completed");
    assert.match(result.for_llm, /note\.txt/);
    const again = await ask("call.default.list_dir", { id: "listed", session, args: { path: "." } });
    assert.equal(again.started_at, result.started_at, "the same call is answered by the same result");
  },

  async "bad input gets a clear error, and nothing breaks"() {
    const unknown = await ask("call.default.nonsense", { id: "e1", session });
    assert.equal(unknown.error.code, "unknown_tool");
    const args = await ask("call.default.read_file", { id: "e2", session, args: { path: 7 } });
    assert.equal(args.error.code, "invalid_arguments");
    const outside = await ask("call.default.read_file", { id: "e3", session, args: { path: "../../etc/passwd" } });
    assert.equal(outside.is_error, true);
    await assert.rejects(ask("call.default.read_file", "{nonsense"), { code: "invalid_call" });
    await assert.rejects(ask("call.default.list_dir", { id: "listed", session, args: { path: ".." } }), { code: "id_mismatch" });
    await assert.rejects(read("get", { artifact_id: "nothing" }), { code: "not_found" });
    await assert.rejects(read("grep", { artifact_id: "big", pattern: "(" }), { code: "invalid_arguments" });
    await assert.rejects(read("lines", { artifact_id: "big", start_line: 60_000, end_line: 60_001 }), { code: "invalid_arguments" });
    await assert.rejects(read("nonsense", {}), { code: "unknown_operation" });

    const { next } = await nextOn("stevedore.dead.call.read_file");
    await publish("stevedore.call.default.read_file", "no JSON at all");
    const letter = await next;
    assert.equal(letter.code, "undecodable");
    assert.ok(letter.reason);
  },

  async "ids may be any text"() {
    for (const id of ["*", ">", "a.b", "a b", "ünïcödé", "\u0000", "x".repeat(5000)]) {
      const result = await ask("call.default.read_file", { id, session, args: { path: "note.txt" } });
      assert.equal(result.outcome, "completed", result.error?.message);
      assert.equal(result.id, id);
    }
  },

  async "another session sees nothing of it"() {
    await assert.rejects(ask("artifact.other.get", { artifact_id: "big" }), { code: "not_found" });
    const list = await ask("artifact.other.query", {});
    assert.doesNotMatch(list.text, /big/);
  },
};

for (const [name, step] of Object.entries(steps)) {
  try {
    await step();
    console.log(`ok: ${name}`);
  } catch (err) {
    console.log(`FAILED: ${name}: ${err.stack}`);
    process.exitCode = 1;
  }
}
await nc.drain();
