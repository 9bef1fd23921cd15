// An MCP server over stdio with the fixtures that the scenarios of @modelcontextprotocol/conformance
// need. "make conformance" copies it beside the packages.
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import * as types from "@modelcontextprotocol/sdk/types.js";
import { z } from "zod";

const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const wav = Buffer.concat([Buffer.from("RIFF$\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0D\xac\0\0\x88X\x01\0\x02\0\x10\0data\0\0\0\0", "latin1")]).toString("base64");
const text = (value) => ({ type: "text", text: value });
const image = { type: "image", data: png, mimeType: "image/png" };
const embedded = (uri, mimeType, value) => ({ type: "resource", resource: { uri, mimeType, text: value } });
const pause = () => new Promise((done) => setTimeout(done, 50));
const none = { type: "object", properties: {} };
const one = (name) => ({ type: "object", properties: { [name]: { type: "string" } }, required: [name] });

const server = new Server({ name: "conformance-fixtures", version: "1.0.0" },
  { capabilities: { tools: {}, prompts: {}, resources: { subscribe: true }, logging: {}, completions: {} } });

// ask sends a request to the client over the stream of the tool's call.
const ask = (extra, method, params) => extra.sendRequest({ method, params }, z.any());
const elicit = async (extra, label, message, properties, required = []) => {
  const { action, content } = await ask(extra, "elicitation/create", { mode: "form", message, requestedSchema: { type: "object", properties, required } });
  return [text(`${label}: action=${action}, content=${JSON.stringify(content ?? {})}`)];
};
const titled = (values) => values.map(([value, title]) => ({ const: value, title }));

const tools = {
  test_simple_text: [none, () => [text("This is a simple text response for testing.")]],
  test_image_content: [none, () => [image]],
  test_audio_content: [none, () => [{ type: "audio", data: wav, mimeType: "audio/wav" }]],
  test_embedded_resource: [none, () => [embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]],
  test_multiple_content_types: [none, () => [text("Multiple content types test:"), image, embedded("test://mixed-content-resource", "application/json", JSON.stringify({ test: "data", value: 123 }))]],
  test_tool_with_logging: [none, async (_, extra) => {
    for (const data of ["Tool execution started", "Tool processing data", "Tool execution completed"]) {
      await extra.sendNotification({ method: "notifications/message", params: { level: "info", data } });
      await pause();
    }
    return [text("logged")];
  }],
  test_error_handling: [none, () => { throw new Error("This tool intentionally returns an error for testing"); }],
  test_tool_with_progress: [none, async (_, extra) => {
    for (const progress of [0, 50, 100]) {
      if (extra._meta?.progressToken !== undefined) await extra.sendNotification({ method: "notifications/progress", params: { progressToken: extra._meta.progressToken, progress, total: 100 } });
      await pause();
    }
    return [text("done")];
  }],
  test_sampling: [one("prompt"), async ({ prompt }, extra) => {
    const { content } = await ask(extra, "sampling/createMessage", { messages: [{ role: "user", content: text(prompt) }], maxTokens: 100 });
    return [text(`LLM response: ${content.text}`)];
  }],
  test_elicitation: [one("message"), ({ message }, extra) => elicit(extra, "User response", message, { username: { type: "string", description: "User's response" }, email: { type: "string", description: "User's email address" } }, ["username", "email"])],
  test_elicitation_sep1034_defaults: [none, (_, extra) => elicit(extra, "Elicitation completed", "Check the defaults", {
    name: { type: "string", default: "John Doe" }, age: { type: "integer", default: 30 }, score: { type: "number", default: 95.5 },
    status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" }, verified: { type: "boolean", default: true },
  })],
  test_elicitation_sep1330_enums: [none, (_, extra) => elicit(extra, "Elicitation completed", "Choose", {
    untitledSingle: { type: "string", enum: ["option1", "option2", "option3"] },
    titledSingle: { type: "string", oneOf: titled([["value1", "First Option"], ["value2", "Second Option"], ["value3", "Third Option"]]) },
    legacyEnum: { type: "string", enum: ["opt1", "opt2", "opt3"], enumNames: ["Option One", "Option Two", "Option Three"] },
    untitledMulti: { type: "array", items: { type: "string", enum: ["option1", "option2", "option3"] } },
    titledMulti: { type: "array", items: { anyOf: titled([["value1", "First Choice"], ["value2", "Second Choice"], ["value3", "Third Choice"]]) } },
  })],
  json_schema_2020_12_tool: [{
    $schema: "https://json-schema.org/draft/2020-12/schema", type: "object", $defs: { address: { type: "object", properties: { street: { type: "string" }, city: { type: "string" } } } },
    properties: { name: { type: "string" }, address: { $ref: "#/$defs/address" } }, additionalProperties: false,
  }, () => [text("ok")]],
};
server.setRequestHandler(types.ListToolsRequestSchema, () => ({ tools: Object.entries(tools).map(([name, [inputSchema]]) => ({ name, description: `The fixture ${name}`, inputSchema })) }));
server.setRequestHandler(types.CallToolRequestSchema, async ({ params }, extra) => {
  try {
    return { content: await tools[params.name][1](params.arguments ?? {}, extra) };
  } catch (err) {
    return { isError: true, content: [text(err.message)] };
  }
});

const user = (content) => ({ role: "user", content });
const argument = (name) => ({ name, description: `The argument ${name}`, required: true });
const prompts = {
  test_simple_prompt: [[], () => [user(text("This is a simple prompt for testing."))]],
  test_prompt_with_arguments: [["arg1", "arg2"], (a) => [user(text(`Prompt with arguments: arg1='${a.arg1}', arg2='${a.arg2}'`))]],
  test_prompt_with_embedded_resource: [["resourceUri"], (a) => [user(embedded(a.resourceUri, "text/plain", "Embedded resource content for testing.")), user(text("Please process the embedded resource above."))]],
  test_prompt_with_image: [[], () => [user(image), user(text("Please analyze the image above."))]],
};
server.setRequestHandler(types.ListPromptsRequestSchema, () => ({ prompts: Object.entries(prompts).map(([name, [names]]) => ({ name, description: `The fixture ${name}`, arguments: names.map(argument) })) }));
server.setRequestHandler(types.GetPromptRequestSchema, ({ params }) => ({ messages: prompts[params.name][1](params.arguments ?? {}) }));

const resources = {
  "test://static-text": { mimeType: "text/plain", text: "This is the content of the static text resource." },
  "test://static-binary": { mimeType: "image/png", blob: png },
  "test://watched-resource": { mimeType: "text/plain", text: "watched" },
};
server.setRequestHandler(types.ListResourcesRequestSchema, () => ({ resources: Object.entries(resources).map(([uri, { mimeType }]) => ({ uri, name: uri.slice(7), description: `The fixture ${uri}`, mimeType })) }));
server.setRequestHandler(types.ListResourceTemplatesRequestSchema, () => ({ resourceTemplates: [{ uriTemplate: "test://template/{id}/data", name: "template", description: "A template", mimeType: "application/json" }] }));
server.setRequestHandler(types.ReadResourceRequestSchema, ({ params: { uri } }) => {
  const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1];
  const content = id ? { mimeType: "application/json", text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }) } : resources[uri];
  if (!content) throw new types.McpError(types.ErrorCode.InvalidParams, `there is no resource ${uri}`);
  return { contents: [{ uri, ...content }] };
});
for (const schema of [types.SubscribeRequestSchema, types.UnsubscribeRequestSchema, types.SetLevelRequestSchema]) server.setRequestHandler(schema, () => ({}));
server.setRequestHandler(types.CompleteRequestSchema, () => ({ completion: { values: [], total: 0, hasMore: false } }));

await server.connect(new StdioServerTransport());
