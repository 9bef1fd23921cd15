// An extension for Pi: "stevedore hook" stores the long output of a command and returns its short
// form. After any error, the output stays as it is.
import { execFile } from "node:child_process";

export default function (pi) {
  pi.on("tool_result", async (event) => {
    if (event.toolName !== "bash") return undefined;
    const output = event.content.map((part) => part.text ?? "").join("");
    // Of a command that failed, there is only the text, in which other programs may name other files.
    const [, cut] = output.match(/Full output: (\/[^\]\n]*\/pi-bash-[0-9a-f]+\.log)\]/) ?? [];
    const status = event.isError ? output.slice(output.lastIndexOf("\n")) : "";
    const text = await shorten({
      hook_event_name: "PostToolUse",
      tool_name: "Bash",
      tool_input: { command: event.input.command },
      tool_response: { stdout: output, persistedOutputPath: event.details?.fullOutputPath ?? cut },
    });
    return text ? { content: [{ type: "text", text: text + status }] } : undefined;
  });
}

function shorten(event) {
  return new Promise((resolve) => {
    const child = execFile("stevedore", ["hook", "pi"], { timeout: 60_000 }, (error, answer) => {
      try {
        resolve(JSON.parse(answer).hookSpecificOutput.updatedToolOutput.stdout);
      } catch {
        resolve(undefined);
      }
    });
    child.stdin?.on("error", () => {}); // the program is missing, or ended early
    child.stdin?.end(JSON.stringify(event));
  });
}
