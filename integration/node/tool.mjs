// A tool of Stevedore that knows nothing but NATS subjects and JSON.
//
//   node tool.mjs URL SUBJECT
//
// It answers requests on SUBJECT and describes itself on SUBJECT.definition.
// Start several: they share the calls.

import { connect, headers } from "@nats-io/transport-node";

const url = new URL(process.argv[2]);
const subject = process.argv[3];
const nc = await connect({
  servers: url.host,
  user: decodeURIComponent(url.username),
  pass: decodeURIComponent(url.password),
  name: "node tool",
});

const definition = {
  description: "Say something loudly.",
  effect: "idempotent",
  parameters: {
    type: "object",
    properties: { text: { type: "string", description: "what to shout" } },
    required: ["text"],
    additionalProperties: false,
  },
};

function fail(msg, code, message) {
  const h = headers();
  h.set("Nats-Service-Error-Code", code);
  h.set("Nats-Service-Error", message);
  msg.respond("", { headers: h });
}

nc.subscribe(`${subject}.definition`, {
  queue: "tools",
  callback: (_err, msg) => msg.respond(JSON.stringify(definition)),
});
nc.subscribe(subject, {
  queue: "tools",
  callback: (_err, msg) => {
    const { args } = msg.json();
    if (args.text === "") return fail(msg, "invalid_arguments", "there is nothing to shout");
    const shouted = `${args.text.toUpperCase()}!`;
    msg.respond(JSON.stringify({ for_llm: shouted, for_user: shouted, silent: true }));
  },
});
await nc.flush();
console.log("ready");
await nc.closed();
