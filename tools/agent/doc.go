// Package agent lets a language model work with tools: it asks the model for a
// turn, runs the tool calls of the turn, and repeats until the model gives its
// final answer or a limit is reached.
//
// Its parts:
//
//   - The loop (run.go, loop.go, calls.go). Agent.Run answers one prompt.
//   - The conversation: a log of entries (entry.go), which the loop appends with
//     compare-and-set (conversations.go). The ids of all tool calls follow from the
//     log. So if a process dies, another one continues the run from the log: it does
//     not ask the model again for a turn in the log, and a repeated call returns its
//     first result. When the conversation nears the size that the model accepts,
//     history.go offloads old tool results, and compact.go replaces old turns by a
//     summary and an artifact.
//   - The model: a Provider (provider.go). Package tools/agent/provider implements
//     it; to add a provider, see the comment of that package.
//   - The tools agent, subagent and spawn (agenttools.go, subagent.go, spawn.go), by
//     which tool calls start runs.
//
// The package does not know where tools run (ToolRunner) or where conversations
// are stored (Conversations). The worker command stores and runs both on the bus.
package agent
