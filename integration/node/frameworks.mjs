// Keeps long tool results out of the prompts of agent frameworks: copy this file and
// frameworks.d.mts, which describes each function. It needs the program stevedore, or a client
// of stevedore.mjs, and no package but the framework.
import { spawn } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

export class ResultsError extends Error {
  constructor(code, message, options) { super(message, options); this.code = code; }
}

const description = 'Read a stored result by lines (10-40, -20), grep, jq, offset, or sql (SELECT ... FROM "ID" JOIN "ID2")';
const string = { type: "string" };
const parameters = { type: "object", properties: { id: string, lines: string, grep: string, jq: string, sql: string, offset: { type: "integer" }, cursor: string } };
const toText = (value) => (typeof value === "string" ? value : JSON.stringify(value) ?? "");

// isMedia reports whether a value is a part with media in a form of a chat API or a framework: a model gets it whole, or not at all.
const isMedia = (part) => /^(input_)?(image|audio|video|media)/.test(part.type) ||
  /^(input_)?file/.test(part.type) && ["mediaType", "mimeType", "mime_type", "file_data"].some((key) => key in part);

const hasMedia = (value) => [value].flat().some((v) => v !== null && typeof v === "object" && (isMedia(v) || Object.values(v).some((field) => field instanceof Uint8Array)));

export function openResults({ bus, minChars = 2000, onError = () => {}, ...options } = {}) {
  const backend = bus ? overBus(bus) : overStdio(options);
  const known = new Map(); // digest of a result -> its reference: a repeated conversion changes no prompt
  const results = {
    async offload(tool, value, { signal } = {}) {
      if (hasMedia(value)) return value;
      let text;
      try { text = toText(value); } catch (err) { // a cycle, a BigInt, or too deep
        onError(new ResultsError("rejected", err.message, { cause: err }));
        return value;
      }
      if (text.length < minChars) return value;
      const digest = createHash("sha256").update(`${tool}\n${text}`).digest("base64");
      if (!known.has(digest)) {
        if (known.size >= 1000) known.delete(known.keys().next().value);
        known.set(digest, backend.offload(tool, text, signal).catch((err) => {
          known.delete(digest);
          if (signal?.aborted) throw err;
          onError(err); // the model gets the result as it is
          return text;
        }));
      }
      const short = await known.get(digest);
      return short === text ? value : short;
    },
    // shorten replaces each long string in a value, so that the value keeps its shape.
    async shorten(tool, value, options) {
      if (typeof value === "string") return results.offload(tool, value, options);
      if (Array.isArray(value)) return Promise.all(value.map((v) => results.shorten(tool, v, options)));
      if (value === null || typeof value !== "object" || isMedia(value)) return value;
      return Object.fromEntries(await Promise.all(Object.entries(value).map(async ([k, v]) => [k, await results.shorten(tool, v, options)])));
    },
    read: (args = {}, { signal } = {}) => backend.read(args, signal),
    tool: {
      name: "read_result", description, parameters,
      run: (args, options) => results.read(args, options).catch((err) => { if (options?.signal?.aborted) throw err; return err.message; }),
    },
    session: backend.session,
    close: () => backend.close(),
  };
  return results;
}

// overStdio speaks MCP with "stevedore mcp wrap -", which returns what a call gives it.
function overStdio({ command = "stevedore", args = [], session = `sdk-${randomUUID().slice(0, 18)}`, data, env }) {
  const argv = ["mcp", "wrap", "--session", session, ...(data ? ["--data", data] : []), ...args, "-"];
  let child, closed = false, ids = 0;
  function start() {
    const waiting = new Map();
    const p = spawn(command, argv, { stdio: ["pipe", "pipe", "inherit"], env: env ?? process.env });
    const fail = (err) => { if (child === started) child = undefined; for (const { reject } of waiting.values()) reject(err); waiting.clear(); };
    p.on("error", (err) => fail(new ResultsError(err.code === "ENOENT" ? "not_installed" : "failed", `start ${command}: ${err.message}`, { cause: err })));
    p.on("exit", (code, signal) => fail(new ResultsError("closed", `${command} ended: ${signal ?? `exit code ${code}`}`)));
    p.stdin.on("error", () => {}); // the exit has the reason
    createInterface({ input: p.stdout }).on("line", (line) => {
      const { id, result, error } = JSON.parse(line);
      const call = waiting.get(id);
      waiting.delete(id);
      if (error) call?.reject(new ResultsError("failed", error.message));
      else call?.resolve(result);
    });
    const say = (message) => p.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
    const started = { p, ask: (method, params, signal) => new Promise((resolve, reject) => {
      const id = ++ids;
      const abort = () => { waiting.delete(id); say({ method: "notifications/cancelled", params: { requestId: id } }); reject(signal.reason); };
      if (signal?.aborted) return reject(signal.reason);
      signal?.addEventListener("abort", abort, { once: true });
      const end = (f) => (value) => { signal?.removeEventListener("abort", abort); f(value); };
      waiting.set(id, { resolve: end(resolve), reject: end(reject) });
      say({ id, method, params });
    }) };
    started.ready = started.ask("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "stevedore-node", version: "1" } })
      .then(() => say({ method: "notifications/initialized" }));
    started.ready.catch(() => {}); // each call reports it
    return started;
  }
  async function call(name, args, signal) {
    if (closed) throw new ResultsError("closed", "the results were closed");
    const c = (child ??= start());
    await c.ready;
    const { content = [], isError } = await c.ask("tools/call", { name, arguments: args }, signal);
    const text = content.filter((b) => b.type === "text").map((b) => b.text).join("\n");
    if (isError) throw new ResultsError("rejected", text);
    return text;
  }
  return {
    session,
    offload: (tool, text, signal) => call(tool, { content: [{ type: "text", text }] }, signal),
    read: (args, signal) => call("read_result", args, signal),
    async close() {
      closed = true;
      const p = child?.p;
      if (!p || p.exitCode !== null) return;
      const ended = new Promise((done) => p.once("exit", done));
      p.stdin.end();
      await ended;
    },
  };
}

// named puts the one tool for models in place of those of the workers that a text of a worker names.
const parts = { get_knowledge_by_id: "offset", get_knowledge_by_lines: "lines", grep_knowledge: "grep", jq_knowledge: "jq", sql_knowledge: "sql" };
const names = new RegExp(`\\b(${Object.keys(parts).join("|")})\\b(\\(artifact(?:s|_id)(?:, \\w+)*\\))?`, "g");
const named = (text) => text.replace(names, (_, name, call) => (call ? `read_result(id, ${parts[name]})` : `read_result with ${parts[name]}`)).replaceAll("query_artifacts", "read_result");

// overBus uses the workers of a bus; bus is a client of stevedore.mjs.
function overBus(bus) {
  return {
    session: bus.session,
    async offload(tool, text) {
      const name = tool.replaceAll(/[^\w-]/g, "_").slice(0, 40).replace(/^(?=-|h_)/i, "r_");
      const short = (await bus.offload(name, text, { id: `${name}_${createHash("sha256").update(text).digest("hex").slice(0, 16)}` })).for_llm;
      return short === text ? text : named(short);
    },
    read: (args) => readBus(args).catch((err) => { err.message = named(err.message); throw err; }),
    close: async () => {}, // the client belongs to the caller
  };
  async function readBus({ id, lines, grep, jq, sql, offset, cursor }) {
    if (jq) return bus.jq(id, jq, { cursor });
    if (sql) return bus.sql(sql, { artifacts: id && [id], cursor });
    if (grep) return bus.grep(id, grep, { cursor });
    if (cursor) return bus.lines(id, undefined, undefined, { cursor });
    const range = /^\s*(-?\d+)(?:\s*-\s*(-?\d+))?\s*$/.exec(lines ?? "");
    if (lines && !range) throw new ResultsError("rejected", `lines ${JSON.stringify(lines)}: want a range such as "10-40", a line such as "10", or "-20" for the last 20 lines`);
    if (range) return bus.lines(id, +range[1], range[2] ? +range[2] : range[1] > 0 ? +range[1] : undefined);
    return id ? bus.page(id, offset) : bus.artifacts({ offset });
  }
}

// Vercel AI SDK: import * as ai from "ai". execute and the UI keep the whole result.
export function forAI({ jsonSchema }, results, tools) {
  const short = Object.fromEntries(Object.entries(tools).map(([name, tool]) => [name, {
    ...tool,
    async toModelOutput(call) {
      const output = await tool.toModelOutput?.(call) ?? (typeof call.output === "string" ? { type: "text", value: call.output } : { type: "json", value: call.output ?? null });
      if (output.type === "content") return { ...output, value: await results.shorten(name, output.value) };
      const value = await results.offload(name, output.value);
      return value === output.value ? output : { ...output, type: output.type.replace("json", "text"), value };
    },
  }]));
  const { name, description, parameters, run } = results.tool;
  return { ...short, [name]: { description, inputSchema: jsonSchema(parameters), execute: (args, { abortSignal }) => run(args, { signal: abortSignal }) } };
}

// LangChain: import * as langchain from "langchain"; createAgent({ middleware: [forLangChain(langchain, results)] }).
export function forLangChain({ createMiddleware, tool }, results) {
  const { name, description, parameters, run } = results.tool;
  return createMiddleware({
    name: "stevedore",
    tools: [tool((args, config) => run(args, { signal: config?.signal }), { name, description, schema: parameters })],
    async wrapToolCall(request, handler) {
      const message = await handler(request);
      if (request.toolCall.name !== name && message?.content) message.content = await results.shorten(request.toolCall.name, message.content, { signal: request.runtime?.signal });
      return message;
    },
  });
}

// OpenAI Agents: import * as agents from "@openai/agents"; new Agent({ tools: forAgents(agents, results, tools) }).
export function forAgents({ tool }, results, tools) {
  const guardrail = {
    type: "tool_output", name: "stevedore",
    async run({ toolCall, output }) {
      const message = await results.offload(toolCall.name, output);
      return { behavior: message === output ? { type: "allow" } : { type: "rejectContent", message } };
    },
  };
  const { name, description, parameters, run } = results.tool;
  const loose = { ...parameters, required: [], additionalProperties: true };
  return [
    ...tools.map((t) => (t.type === "function" ? { ...t, outputGuardrails: [...t.outputGuardrails ?? [], guardrail] } : t)),
    tool({ name, description, parameters: loose, strict: false, execute: (args, _context, details) => run(args, { signal: details?.signal }) }),
  ];
}

// Claude Agent SDK: query({ prompt, options: { ...forClaude(results), ... } }). The hook keeps the
// shape of each tool's result. command and data are those of openResults.
export function forClaude(results, { command = "stevedore", data, matcher = "Bash|Grep|Glob|WebFetch|WebSearch|mcp__.*" } = {}) {
  const shorten = async (input, _id, { signal } = {}) => {
    let response = input.tool_response;
    if (input.tool_name.endsWith("__read_result")) return {};
    if (response?.persistedOutputPath) { // the host has cut the output
      const { persistedOutputPath, persistedOutputSize, ...rest } = response;
      response = { ...rest, stdout: readFileSync(persistedOutputPath, "utf8") };
    }
    const short = await results.shorten(input.tool_name, response, { signal });
    return JSON.stringify(short) === JSON.stringify(response) ? {} : { hookSpecificOutput: { hookEventName: "PostToolUse", updatedToolOutput: short } };
  };
  return {
    hooks: { PostToolUse: [{ matcher, hooks: [(...call) => shorten(...call).catch(() => ({}))] }] },
    mcpServers: { stevedore: { command, args: ["mcp", "wrap", "--session", results.session, ...(data ? ["--data", data] : []), "-"], alwaysLoad: true } }, // a reference names the tool
  };
}
