package hosts

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Host is a program that starts MCP servers.
type Host struct {
	Name  string // in commands, such as claude-code
	Title string // in texts, such as Claude Code
	// Desktop tells that the host is started without a shell, so that its PATH is short.
	Desktop bool

	format   format
	command  string   // the key of the command
	keys     []string // of the table with the servers
	reserved []string // keys in that table which need not be servers
	user     []string // files of the user, see path; windows instead of them there, if it is not nil
	windows  []string
	project  []string // files in the directory of a project
	nested   []string // more keys, in the files of the user; see Location
	// adapterDir is the directory for the files of the adapter for the host's shell, below
	// adapterHome, which is that of the host, see path. Without adapterHome, there is no adapter.
	adapterHome, adapterDir string
}

// Adapter returns the directory of the host and, below it, the one for the files of the adapter
// for its shell. They are "" if there is no adapter.
func (h *Host) Adapter(m Machine) (home, dir string) {
	if h.adapterHome == "" {
		return "", ""
	}
	home = m.path(h.adapterHome)
	return home, filepath.Join(home, filepath.FromSlash(h.adapterDir))
}

// Machine says where a user's files are.
type Machine struct {
	OS   string // as runtime.GOOS
	Home string // the home directory
	Dir  string // the directory of the project
	// Getenv returns a variable of the environment, or "".
	Getenv func(string) string
}

// path returns a path of the table. $CONFIG is the directory in which programs of the XDG convention
// keep settings, some on Windows, too, and all on macOS; $DESKTOP is the one for settings of the desktop.
// ${NAME:DIR} is the variable, or else DIR in the home directory. path is "" for a variable that is not set.
func (m Machine) path(form string) string {
	text := os.Expand(form, func(name string) string {
		variable, dir, inHome := strings.Cut(name, ":")
		xdg, value := m.Getenv("XDG_CONFIG_HOME"), m.Getenv(variable)
		switch {
		case name == "HOME":
			return m.Home
		case name == "DESKTOP" && m.OS == "windows":
			return cmp.Or(m.Getenv("APPDATA"), filepath.Join(m.Home, "AppData", "Roaming"))
		case name == "DESKTOP" && m.OS == "darwin":
			return filepath.Join(m.Home, "Library", "Application Support")
		case (name == "CONFIG" || name == "DESKTOP") && filepath.IsAbs(xdg):
			return xdg
		case name == "CONFIG" || name == "DESKTOP":
			return filepath.Join(m.Home, ".config")
		case value == "" && inHome:
			return filepath.Join(m.Home, dir)
		}
		return value
	})
	if text == "" {
		return ""
	}
	return filepath.Clean(filepath.FromSlash(text)) // a variable may end in a slash
}

// Scopes of a configuration.
const (
	User    = "user"
	Project = "project"
)

// Location is one file in which a host may keep servers.
type Location struct {
	Path  string
	Scope string
	host  *Host
	// keys are the keys of tables with servers; "*" is any key.
	keys [][]string
}

// Host returns the host that reads the file.
func (l Location) Host() *Host { return l.host }

// Locations returns the files of a host in one scope, which need not exist.
func (h *Host) Locations(m Machine, scope string) (all []Location) {
	keys := [][]string{h.keys}
	if slices.Contains(h.reserved, "servers") {
		keys = append(keys, append(slices.Clip(h.keys), "servers"))
	}
	if scope == Project {
		for _, name := range h.project {
			all = append(all, Location{filepath.Join(m.Dir, filepath.FromSlash(name)), scope, h, keys})
		}
		return all
	}
	if h.nested != nil {
		keys = append(keys, h.nested)
	}
	files := h.user
	if m.OS == "windows" && h.windows != nil {
		files = h.windows
	}
	for _, form := range files {
		if path := m.path(form); path != "" && !slices.ContainsFunc(all, func(l Location) bool { return l.Path == path }) {
			all = append(all, Location{path, scope, h, keys})
		}
	}
	return all
}

// Find returns the host of this name, or nil.
func Find(name string) *Host {
	for _, h := range All {
		if h.Name == name {
			return h
		}
	}
	return nil
}

// All are the known hosts, from their documentation of November 2026.
var All = []*Host{
	{
		Name: "claude-code", Title: "Claude Code", format: jsonFormat, command: "command", keys: []string{"mcpServers"},
		user: []string{"${CLAUDE_CONFIG_DIR:}/.claude.json"}, nested: []string{"projects", "*", "mcpServers"}, project: []string{".mcp.json"},
		adapterHome: "${CLAUDE_CONFIG_DIR:.claude}", adapterDir: "skills/stevedore",
	},
	{
		Name: "claude-desktop", Title: "Claude Desktop", Desktop: true, format: jsonFormat, command: "command", keys: []string{"mcpServers"},
		user: []string{"$DESKTOP/Claude/claude_desktop_config.json"},
	},
	{
		Name: "codex", Title: "Codex", format: tomlFormat, command: "command", keys: []string{"mcp_servers"},
		user: []string{"${CODEX_HOME:.codex}/config.toml"}, project: []string{".codex/config.toml"}, adapterHome: "${CODEX_HOME:.codex}",
	},
	{
		Name: "cursor", Title: "Cursor", Desktop: true, format: jsonFormat, command: "command", keys: []string{"mcpServers"},
		user: []string{"$HOME/.cursor/mcp.json"}, project: []string{".cursor/mcp.json"},
	},
	{
		Name: "vscode", Title: "VS Code", Desktop: true, format: jsonFormat, command: "command", keys: []string{"servers"},
		user: []string{"$DESKTOP/Code/User/mcp.json", "$DESKTOP/Code - Insiders/User/mcp.json"}, project: []string{".vscode/mcp.json"},
	},
	{
		Name: "windsurf", Title: "Windsurf", Desktop: true, format: jsonFormat, command: "command", keys: []string{"mcpServers"},
		user: []string{"$HOME/.codeium/windsurf/mcp_config.json"},
	},
	{
		Name: "gemini-cli", Title: "Gemini CLI", format: jsonFormat, command: "command", keys: []string{"mcpServers"},
		user: []string{"$HOME/.gemini/settings.json"}, project: []string{".gemini/settings.json"},
		adapterHome: "$HOME/.gemini", adapterDir: "extensions/stevedore",
	},
	{
		Name: "copilot-cli", Title: "Copilot CLI", format: jsonFormat, command: "command", keys: []string{"mcpServers"},
		user: []string{"${COPILOT_HOME:.copilot}/mcp-config.json"},
	},
	{
		Name: "qwen-code", Title: "Qwen Code", format: jsonFormat, command: "command", keys: []string{"mcpServers"},
		user: []string{"$HOME/.qwen/settings.json"}, project: []string{".qwen/settings.json", ".qwen/settings.local.json"},
	},
	{
		// opencode 1 has the servers in mcp, opencode 2 in mcp.servers.
		Name: "opencode", Title: "opencode", format: jsonFormat, command: "command", keys: []string{"mcp"}, reserved: []string{"servers", "timeout"},
		user:        []string{"$CONFIG/opencode/opencode.json", "$CONFIG/opencode/opencode.jsonc", "$CONFIG/opencode/config.json", "$OPENCODE_CONFIG"},
		project:     []string{"opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"},
		adapterHome: "$CONFIG/opencode", adapterDir: "plugins",
	},
	{
		Name: "zed", Title: "Zed", Desktop: true, format: jsonFormat, command: "command", keys: []string{"context_servers"},
		user: []string{"$CONFIG/zed/settings.json"}, windows: []string{"$DESKTOP/Zed/settings.json"}, project: []string{".zed/settings.json"},
	},
	{
		Name: "goose", Title: "goose", format: yamlFormat, command: "cmd", keys: []string{"extensions"},
		user: []string{"$CONFIG/goose/config.yaml"}, windows: []string{"$DESKTOP/Block/goose/config/config.yaml"},
	},
	{ // it has no MCP servers
		Name: "pi", Title: "Pi", adapterHome: "$HOME/.pi/agent", adapterDir: "extensions",
	},
}
