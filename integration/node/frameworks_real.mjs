// An agent of each framework reads a long log, with a scripted model on loopback: examples of
// frameworks.mjs, which "make frameworks" runs. Copy both beside the packages, and run
//
//   node frameworks_real.mjs WORKER DIRECTORY
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { join } from "node:path";
import { forAI, forAgents, forClaude, forLangChain, openResults } from "./frameworks.mjs";

const [worker, dir] = process.argv.slice(2);
const data = join(dir, "data");
const log = Array.from({ length: 40_000 }, (_, i) => `line ${i} of the log${i === 777 ? " ERROR disk full" : ""}`).join("\n");
const results = openResults({ command: worker, data, session: "real" });
const parameters = { type: "object", properties: { path: { type: "string" } }, required: ["path"], additionalProperties: false };
const description = "Read a log";
const base = await startModel();

const frameworks = {
  async "AI SDK"() {
    const ai = await import("ai");
    const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
    const tools = forAI(ai, results, { read_log: { description, inputSchema: ai.jsonSchema(parameters), execute: async () => log } });
    const model = createOpenAICompatible({ name: "scripted", baseURL: `${base}/v1`, apiKey: "x" })("m");
    const { text, steps } = await ai.generateText({ model, tools, prompt: "Why did it fail?", stopWhen: ai.stepCountIs(5) });
    assert.equal(steps[0].toolResults[0].output, log); // programs see the whole result
    return text;
  },
  async LangChain() {
    const langchain = await import("langchain");
    const { ChatOpenAI } = await import("@langchain/openai");
    const model = new ChatOpenAI({ model: "m", apiKey: "x", configuration: { baseURL: `${base}/v1` } });
    const tools = [langchain.tool(async () => log, { name: "read_log", description, schema: parameters })];
    const agent = langchain.createAgent({ model, tools, middleware: [forLangChain(langchain, results)] });
    return (await agent.invoke({ messages: [{ role: "user", content: "Why did it fail?" }] })).messages.at(-1).text;
  },
  async "OpenAI Agents"() {
    const agents = await import("@openai/agents");
    const { default: OpenAI } = await import("openai");
    agents.setTracingDisabled(true);
    agents.setOpenAIAPI("chat_completions");
    agents.setDefaultOpenAIClient(new OpenAI({ baseURL: `${base}/v1`, apiKey: "x" }));
    const readLog = agents.tool({ name: "read_log", description, parameters, strict: true, execute: async () => log });
    const agent = new agents.Agent({ name: "a", model: "m", tools: forAgents(agents, results, [readLog]) });
    return (await agents.run(agent, "Why did it fail?")).finalOutput;
  },
  async "Claude Agent SDK"() {
    const { query, tool, createSdkMcpServer } = await import("@anthropic-ai/claude-agent-sdk");
    const readLog = tool("read_log", description, {}, async () => ({ content: [{ type: "text", text: log }] }));
    const { hooks, mcpServers } = forClaude(results, { command: worker, data });
    const options = {
      hooks, mcpServers: { ...mcpServers, logs: createSdkMcpServer({ name: "logs", tools: [readLog], alwaysLoad: true }) }, allowedTools: ["mcp__logs", "mcp__stevedore"], settingSources: [],
      cwd: dir, model: "claude-sonnet-4-5", env: { ...process.env, HOME: dir, ANTHROPIC_BASE_URL: base, ANTHROPIC_API_KEY: "x", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1", MAX_MCP_OUTPUT_TOKENS: "10000000" },
    };
    for await (const message of query({ prompt: "Why did it fail?", options })) if (message.type === "result") return message.result;
  },
};

// startModel starts a model that reads the log, searches the stored result, and repeats what it found.
async function startModel() {
  const server = createServer(async (req, res) => {
    let body = "";
    for await (const part of req) body += part;
    const { messages = [], tools = [], stream } = body ? JSON.parse(body) : {};
    startModel.largest = Math.max(startModel.largest ?? 0, ...messages.map((m) => JSON.stringify(m).length));
    const named = (name) => tools.map((t) => t.function?.name ?? t.name).find((n) => n.endsWith(name)) ?? name;
    const blocks = messages.flatMap((m) => (m.role === "tool" ? [m.content] : Array.isArray(m.content) ? m.content.filter((b) => b.type === "tool_result").map((b) => b.content) : [])).map((c) => (typeof c === "string" ? c : JSON.stringify(c)));
    const id = /artifact '([^']+)'/.exec(blocks[0])?.[1];
    const call = blocks.length === 0 && tools.length > 0 ? [named("read_log"), { path: "log" }] : blocks.length === 1 ? [named("read_result"), { id, grep: "ERROR" }] : undefined;
    const text = /line \d+ of the log ERROR[^"\\\n]*/.exec(blocks.at(-1) ?? "")?.[0] ?? `nothing found: ${blocks.at(-1)?.slice(0, 300)}`;
    const args = JSON.stringify(call?.[1]);
    if (req.url.endsWith("/chat/completions")) {
      const message = call ? { role: "assistant", content: null, tool_calls: [{ index: 0, id: `call_${blocks.length}`, type: "function", function: { name: call[0], arguments: args } }] } : { role: "assistant", content: text };
      const choice = { index: 0, finish_reason: call ? "tool_calls" : "stop" };
      const reply = { id: `reply-${blocks.length}`, created: 1, model: "m", usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } };
      if (!stream) return res.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ ...reply, object: "chat.completion", choices: [{ ...choice, message }] }));
      return res.writeHead(200, { "content-type": "text/event-stream" }).end(`data: ${JSON.stringify({ ...reply, object: "chat.completion.chunk", choices: [{ ...choice, delta: message }] })}\n\ndata: [DONE]\n\n`);
    }
    const block = call ? { type: "tool_use", id: `toolu_${blocks.length}`, name: call[0], input: {} } : { type: "text", text: "" };
    const usage = { input_tokens: 1, output_tokens: 1 };
    const events = [
      { type: "message_start", message: { id: "m", type: "message", role: "assistant", model: "m", content: [], stop_reason: null, stop_sequence: null, usage } },
      { type: "content_block_start", index: 0, content_block: block },
      { type: "content_block_delta", index: 0, delta: call ? { type: "input_json_delta", partial_json: args } : { type: "text_delta", text } },
      { type: "content_block_stop", index: 0 }, { type: "message_delta", delta: { stop_reason: call ? "tool_use" : "end_turn", stop_sequence: null }, usage }, { type: "message_stop" },
    ];
    if (!stream) return res.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ input_tokens: 1, data: [] }));
    res.writeHead(200, { "content-type": "text/event-stream" }).end(events.map((e) => `event: ${e.type}\ndata: ${JSON.stringify(e)}\n\n`).join(""));
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  server.unref();
  return `http://127.0.0.1:${server.address().port}`;
}

for (const [name, run] of Object.entries(frameworks)) {
  startModel.largest = 0;
  assert.match(await run(), /line 777 of the log ERROR disk full/, name);
  if (name !== "Claude Agent SDK") assert.ok(startModel.largest < 3000, `${name}: a message has ${startModel.largest} characters`);
  console.log(`ok: ${name}: the log has ${log.length} characters, the longest message ${startModel.largest}`);
}
await results.close();
process.exit(0);
