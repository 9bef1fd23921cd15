// An agent with the OpenAI SDK (chat completions) whose tools run in Stevedore's workers:
//   node agent.openai.mjs "How many lines of the kernel log mention usb?"
import OpenAI from "openai";
import { connect } from "./stevedore.mjs";

const bus = await connect(undefined, { session: process.env.SESSION ?? "openai" });
const client = new OpenAI(); // OPENAI_API_KEY, OPENAI_BASE_URL
const tools = await bus.tools("openai");
const messages = [{ role: "user", content: process.argv[2] }];
for (;;) {
  const turn = await client.chat.completions.create({ model: "gpt-5", tools, messages });
  const message = turn.choices[0].message;
  messages.push(message);
  if (!message.tool_calls?.length) {
    console.log(message.content);
    break;
  }
  messages.push(...await Promise.all(message.tool_calls.map(async ({ id, function: f }) => {
    const result = await bus.call(f.name, JSON.parse(f.arguments || "{}"), { id });
    return { role: "tool", tool_call_id: id, content: result.for_llm };
  })));
}
await bus.close();
