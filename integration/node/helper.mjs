// Uses every function of stevedore.mjs. It prints "cut" when the test should cut its
// connection, and ends with status 0 only if every answer is as expected.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { connect, StevedoreError } from "./stevedore.mjs";

const bus = await connect(undefined, { session: "node" });

const steps = {
  async "tools as the lists of two APIs"() {
    const tools = await bus.tools();
    const grep = tools.find((t) => t.name === "grep_knowledge");
    assert.equal(grep.input_schema.type, "object");
    assert.ok(grep.description);
    assert.equal(tools.find((t) => t.name === "spawn"), undefined);
    assert.ok((await bus.tools("anthropic", [])).find((t) => t.name === "spawn"));
    const shell = (await bus.tools("openai")).find((t) => t.function.name === "shell");
    assert.equal(shell.type, "function");
    assert.ok(shell.function.parameters.properties.command);
  },
  async "read a big result back"() {
    const result = await bus.call("shell", { command: "seq 1 50000" }, { id: "big" });
    assert.equal(result.outcome, "completed");
    assert.equal(result.artifact.artifact_id, "big");
    assert.match(await bus.grep("big", "^4999[89]$", { context_before: 1 }), /^Found 2 match[^]*49998: 49998/);
    assert.match(await bus.lines("big", 40_000, 40_001), /40000\n40001/);
    assert.match(await bus.page("big", 0, 6), /1\n2\n3\n/);
    const again = await bus.call("shell", { command: "seq 1 50000" }, { id: "big" });
    assert.equal(again.started_at, result.started_at, "the same id gives the same result");
  },
  async "failures"() {
    await assert.rejects(bus.lines("none", 1), (err) => err instanceof StevedoreError && err.code === "not_found");
    await assert.rejects(bus.call("read_file", { path: "." }, { id: "big" }), { code: "id_mismatch" });
    await assert.rejects(connect(undefined, { session: "a.b" }), { code: "invalid_arguments" });
    await assert.rejects(connect(undefined, { password: "wrong" }), /authorization.*stevedore up --print-env/i);
    for (const name of ["none", "read file", "", "x 2\r\n{}\r\nPUB a"]) assert.equal((await bus.call(name)).error.code, "unknown_tool");
    await assert.rejects(bus.tools("opnai"), { code: "invalid_arguments" });
    await assert.rejects(bus.offload("t", "text", { id: "a b" }), { code: "invalid_arguments" });
    assert.equal((await bus.call("read_file", { path: "note.txt" }, { id: "any text, ünïcödé" })).for_llm, "A note.\n");
  },
  async "the connection is cut while a call runs"() {
    const call = bus.call("shell", { command: "echo ran >> runs; sleep 1; cat runs" }, { id: "cut" });
    await sleep(300);
    console.log("cut");
    const result = await call;
    assert.equal(result.outcome, "completed", result.error?.message);
    assert.match(result.for_llm, /^ran\n(?!ran)/);
  },
  async "completions, live and missed"() {
    const live = bus.completions(); // from now on, not from the first next()
    console.log("cut");
    assert.equal((await bus.call("spawn", { task: "say hi" }, { id: "child" })).outcome, "async");
    await sleep(1500);
    const { value } = await live.next();
    assert.equal(value.id, "child");
    assert.match(value.for_llm, /hi/);
    await live.return();
    for await (const missed of bus.completions(0)) {
      assert.equal(missed.sequence, value.sequence);
      break;
    }
  },
  async "what the server does not permit"() {
    const limited = await connect(process.env.LIMITED_URL, { user: "limited", password: "limited", session: "node" });
    const began = Date.now();
    await assert.rejects(limited.call("shell", { command: "true" }), { code: "permission_denied" });
    await assert.rejects(limited.serve("acme.shout", {}, () => ""), { code: "permission_denied" });
    await assert.rejects(limited.completions().next(), { code: "permission_denied" });
    assert.ok(Date.now() - began < 10_000);
    await limited.nc.close();
  },
  async "a worker dies with the request, and another one answers the next"() {
    const [worker, client] = await Promise.all([1, 2].map(() => connect(process.env.LIMITED_URL, { user: "worker", password: "worker" })));
    const seen = [];
    worker.nc.subscribe("stevedore.rpc.call.>", { callback: (_, msg) => seen.push(msg.json().id) > 1 && msg.respond('{"for_llm":"done"}') });
    await worker.nc.flush();
    assert.equal((await client.call("shell", { command: "true" }, { timeout: 50_000 })).for_llm, "done");
    assert.ok(seen.length === 2 && seen[0] === seen[1], String(seen));
    await Promise.all([worker.nc.close(), client.nc.close()]);
  },
  async "serve a tool"() {
    await bus.serve("acme.shout", { description: "Shout.", parameters: { type: "object", properties: { text: { type: "string" } } }, effect: "idempotent" }, ({ text }) => {
      if (text === "") throw new StevedoreError("invalid_arguments", "there is nothing to shout");
      return text === "big" ? "x".repeat(3_000_000) : `${text.toUpperCase()}!`;
    });
    assert.equal((await bus.call("shout", { text: "hi" })).for_llm, "HI!");
    const failed = await bus.call("shout", { text: "" });
    assert.equal(failed.error.code, "invalid_arguments");
    assert.equal(failed.for_llm, "there is nothing to shout");
    assert.equal((await bus.call("shout", { text: "big" })).is_error, true);
  },
};

for (const [name, step] of Object.entries(steps)) {
  await step().then(() => console.log(`ok: ${name}`), (err) => {
    console.log(`FAILED: ${name}: ${err.stack}`);
    process.exitCode = 1;
  });
}
await bus.close();
