// Package hosts has the files that make coding hosts shorten the output of their own shells, in a
// directory for each host. "stevedore mcp install" copies them.
package hosts

import "embed"

// Files are the files of all hosts.
//
//go:embed all:claude-code codex gemini-cli opencode pi
var Files embed.FS
