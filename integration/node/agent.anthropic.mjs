// An agent with the Anthropic SDK whose tools run in Stevedore's workers:
//   node agent.anthropic.mjs "How many lines of the kernel log mention usb?"
import Anthropic from "@anthropic-ai/sdk";
import { connect } from "./stevedore.mjs";

const bus = await connect(undefined, { session: process.env.SESSION ?? "anthropic" });
const client = new Anthropic(); // ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL
const tools = await bus.tools("anthropic");
const messages = [{ role: "user", content: process.argv[2] }];
for (;;) {
  const turn = await client.messages.create({ model: "claude-sonnet-5-5", max_tokens: 4096, tools, messages });
  messages.push({ role: "assistant", content: turn.content });
  const calls = turn.content.filter((block) => block.type === "tool_use");
  if (calls.length === 0) {
    console.log(turn.content.map((block) => block.text ?? "").join(""));
    break;
  }
  messages.push({ role: "user", content: await Promise.all(calls.map(async ({ id, name, input }) => {
    const result = await bus.call(name, input, { id });
    return { type: "tool_result", tool_use_id: id, content: result.for_llm, is_error: result.is_error };
  })) });
}
await bus.close();
