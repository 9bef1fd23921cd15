#!/usr/bin/env node
// Starts the program for this platform, which is in a package of its own.
const { spawn } = require("node:child_process");

const platform = `${require("./package.json").name}-${process.platform}-${process.arch}`;
const file = process.platform === "win32" ? "stevedore.exe" : "stevedore";
let program;
try {
  program = require.resolve(`${platform}/bin/${file}`);
} catch {
  console.error(`stevedore: the package ${platform} is not installed. If this platform has one, install without --omit=optional; else build from source: https://github.com/stevedore-bus/stevedore`);
  process.exit(1);
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`stevedore: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (!signal) process.exit(code);
  for (const passed of ["SIGINT", "SIGTERM", "SIGHUP"]) process.removeAllListeners(passed);
  process.kill(process.pid, signal);
});
