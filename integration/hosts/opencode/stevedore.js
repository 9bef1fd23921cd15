// A plugin for opencode: "stevedore hook" stores the long output of a command and returns its
// short form. After any error, the output stays as it is.
import { execFile } from "node:child_process";

export const Stevedore = async () => ({
  "tool.execute.after": async (input, output) => {
    if (input.tool !== "bash") return;
    const event = {
      hook_event_name: "PostToolUse",
      tool_name: "Bash",
      tool_input: { command: input.args?.command },
      tool_response: { stdout: output.output, persistedOutputPath: output.metadata?.outputPath },
    };
    const text = await shorten(event);
    const [status] = output.output.match(/\n<shell_metadata>[^]*$/) ?? [""]; // why the host ended the command
    if (text) output.output = text.replace(status, "") + status; // it is not in the file
  },
});

function shorten(event) {
  return new Promise((resolve) => {
    const child = execFile("stevedore", ["hook", "opencode"], { timeout: 60_000 }, (error, answer) => {
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
