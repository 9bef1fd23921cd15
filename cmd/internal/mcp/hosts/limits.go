package hosts

import "strings"

// Limits are what the proxy must know about a host to cost its model less than it does without the
// proxy. All numbers are characters.
type Limits struct {
	// Client is the name that the host gives itself as an MCP client, or what the name begins with
	// before a "-".
	Client string
	// The host shows ToolShown of a result that is longer than Tool, and ShellShown of an output of
	// its own shell that is longer than Shell. 0 means that it cuts nothing.
	Tool, ToolShown, Shell, ShellShown int64
	// Longer results than Inline are stored; Reference is the longest reference, and Page the
	// longest answer of a reading tool. 0 means the default.
	Inline          int64
	Reference, Page int
	// Late tells that the host lists changed tools before the next request to the model. Codex and
	// Gemini CLI do not list again.
	Late bool
	// Reads is what its model can read stored results with, so that no tool is added.
	Reads ReadWay
	// ResourceTools tells that the host offers three tools of its own, with 1,400 to 2,100
	// characters, if a server has resources, or no way to read them. The proxy then adds no
	// resources.
	ResourceTools bool
}

// ReadWay is a tool of a host that reads stored results.
type ReadWay string

// Ways to read stored results.
const (
	ByResource ReadWay = "resource" // its tool read_mcp_resource, which is in each request
	ByCommand  ReadWay = "command"  // its shell, which can run "stevedore read"
)

// limits are the clients whose limits are known. What they show was measured as docs/mcp.md says:
// of a long result, Claude Code, Gemini CLI and opencode give the rest as a file; Codex and Copilot
// CLI cut it, and its middle is lost. The other columns were measured with Claude Code 2.1.332,
// Codex 0.169.0, Gemini CLI 0.61.0 and opencode 1.18.33. Codex shows a resource as JSON, whose
// escapes make a page longer.
var limits = []Limits{
	{Client: "claude-code", Tool: 62_500, ToolShown: 1_300, Shell: 30_000, ShellShown: 2_200, Inline: 10_000, Reference: 800, Late: true, ResourceTools: true},
	{Client: "codex", Tool: 10_000, ToolShown: 10_000, Shell: 10_000, ShellShown: 10_000, Inline: 9_000, Reference: 800, Page: 7_500, Reads: ByResource},
	{Client: "copilot", Tool: 10_000, ToolShown: 10_000, Shell: 10_000, ShellShown: 10_000, Inline: 9_000, Reference: 800, Page: 8_500},
	{Client: "github-copilot", Tool: 10_000, ToolShown: 10_000, Shell: 10_000, ShellShown: 10_000, Inline: 9_000, Reference: 800, Page: 8_500},
	{Client: "gemini-cli", Tool: 40_000, ToolShown: 40_000, Shell: 40_000, ShellShown: 40_000, Inline: 10_000, Reference: 800,
		ResourceTools: true, Reads: ByCommand},
	{Client: "opencode", Tool: 48_000, ToolShown: 48_000, Shell: 50_000, ShellShown: 50_000, Inline: 10_000, Reference: 800, Late: true, ResourceTools: true},
	{Client: "pi", Shell: 50_000, ShellShown: 50_000},
	{Client: "qwen", Tool: 25_000, ToolShown: 25_000, Shell: 25_000, ShellShown: 25_000, Inline: 10_000, Reference: 800},
	{Client: "stevedore", Inline: 10_000, Reference: 800}, // the adapters for frameworks, which cut nothing
}

// LimitsOf returns the limits of a client; the zero value if it is not known.
func LimitsOf(client string) Limits {
	for _, l := range limits {
		if strings.HasPrefix(strings.ToLower(client)+"-", l.Client+"-") {
			return l
		}
	}
	return Limits{}
}

// Shown returns how much the host alone shows of a result, or of an output of its shell.
func (l Limits) Shown(whole int64, shell bool) int64 {
	limit, shown := l.Tool, l.ToolShown
	if shell {
		limit, shown = l.Shell, l.ShellShown
	}
	if limit > 0 && whole > limit {
		return shown
	}
	return whole
}
