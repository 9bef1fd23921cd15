package hosts

import (
	"cmp"
	"path/filepath"
	"slices"
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
	user     func(Machine) []string
	project  []string // files in the directory of a project
	nested   []string // more keys, in the files of the user; see Location
	// adapter is the directory for the files of the adapter for the host's shell, below the first
	// path, which is that of the host; nil if there is none.
	adapter func(Machine) (home, dir string)
}

// Adapter returns the directory of the host and, below it, the one for the files of the adapter
// for its shell. They are "" if there is no adapter.
func (h *Host) Adapter(m Machine) (home, dir string) {
	if h.adapter == nil {
		return "", ""
	}
	home, dir = h.adapter(m)
	home = filepath.Clean(home) // a variable may end in a slash
	return home, filepath.Join(home, filepath.FromSlash(dir))
}

// Machine says where a user's files are.
type Machine struct {
	OS   string // as runtime.GOOS
	Home string // the home directory
	Dir  string // the directory of the project
	// Getenv returns a variable of the environment, or "".
	Getenv func(string) string
}

// config returns a path in the directory in which programs of the XDG convention keep
// settings. Some use it on Windows, too, and all on macOS.
func (m Machine) config(elem ...string) string {
	dir := m.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(m.Home, ".config")
	}
	return filepath.Join(append([]string{dir}, elem...)...)
}

// appData returns a path in the directory for settings of the desktop.
func (m Machine) appData(elem ...string) string {
	dir := m.config()
	switch m.OS {
	case "windows":
		dir = cmp.Or(m.Getenv("APPDATA"), filepath.Join(m.Home, "AppData", "Roaming"))
	case "darwin":
		dir = filepath.Join(m.Home, "Library", "Application Support")
	}
	return filepath.Join(append([]string{dir}, elem...)...)
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
	if h.user == nil {
		return nil
	}
	for _, path := range h.user(m) {
		all = append(all, Location{path, scope, h, keys})
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
		nested: []string{"projects", "*", "mcpServers"}, project: []string{".mcp.json"},
		user: func(m Machine) []string {
			return []string{filepath.Join(cmp.Or(m.Getenv("CLAUDE_CONFIG_DIR"), m.Home), ".claude.json")}
		},
		adapter: func(m Machine) (string, string) {
			return cmp.Or(m.Getenv("CLAUDE_CONFIG_DIR"), filepath.Join(m.Home, ".claude")), "skills/stevedore"
		},
	},
	{
		Name: "claude-desktop", Title: "Claude Desktop", Desktop: true, format: jsonFormat, command: "command", keys: []string{"mcpServers"},
		user: func(m Machine) []string { return []string{m.appData("Claude", "claude_desktop_config.json")} },
	},
	{
		Name: "codex", Title: "Codex", format: tomlFormat, command: "command", keys: []string{"mcp_servers"}, project: []string{".codex/config.toml"},
		user: func(m Machine) []string {
			return []string{filepath.Join(cmp.Or(m.Getenv("CODEX_HOME"), filepath.Join(m.Home, ".codex")), "config.toml")}
		},
		adapter: func(m Machine) (string, string) {
			return cmp.Or(m.Getenv("CODEX_HOME"), filepath.Join(m.Home, ".codex")), ""
		},
	},
	{
		Name: "cursor", Title: "Cursor", Desktop: true, format: jsonFormat, command: "command", keys: []string{"mcpServers"}, project: []string{".cursor/mcp.json"},
		user: func(m Machine) []string { return []string{filepath.Join(m.Home, ".cursor", "mcp.json")} },
	},
	{
		Name: "vscode", Title: "VS Code", Desktop: true, format: jsonFormat, command: "command", keys: []string{"servers"}, project: []string{".vscode/mcp.json"},
		user: func(m Machine) []string {
			return []string{m.appData("Code", "User", "mcp.json"), m.appData("Code - Insiders", "User", "mcp.json")}
		},
	},
	{
		Name: "windsurf", Title: "Windsurf", Desktop: true, format: jsonFormat, command: "command", keys: []string{"mcpServers"},
		user: func(m Machine) []string {
			return []string{filepath.Join(m.Home, ".codeium", "windsurf", "mcp_config.json")}
		},
	},
	{
		Name: "gemini-cli", Title: "Gemini CLI", format: jsonFormat, command: "command", keys: []string{"mcpServers"}, project: []string{".gemini/settings.json"},
		user: func(m Machine) []string { return []string{filepath.Join(m.Home, ".gemini", "settings.json")} },
		adapter: func(m Machine) (string, string) {
			return filepath.Join(m.Home, ".gemini"), "extensions/stevedore"
		},
	},
	{
		Name: "copilot-cli", Title: "Copilot CLI", format: jsonFormat, command: "command", keys: []string{"mcpServers"},
		user: func(m Machine) []string {
			return []string{filepath.Join(cmp.Or(m.Getenv("COPILOT_HOME"), filepath.Join(m.Home, ".copilot")), "mcp-config.json")}
		},
	},
	{
		Name: "qwen-code", Title: "Qwen Code", format: jsonFormat, command: "command", keys: []string{"mcpServers"},
		project: []string{".qwen/settings.json", ".qwen/settings.local.json"},
		user:    func(m Machine) []string { return []string{filepath.Join(m.Home, ".qwen", "settings.json")} },
	},
	{
		// opencode 1 has the servers in mcp, opencode 2 in mcp.servers.
		Name: "opencode", Title: "opencode", format: jsonFormat, command: "command", keys: []string{"mcp"},
		reserved: []string{"servers", "timeout"},
		project:  []string{"opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"},
		user: func(m Machine) []string {
			files := []string{m.config("opencode", "opencode.json"), m.config("opencode", "opencode.jsonc"), m.config("opencode", "config.json")}
			if own := m.Getenv("OPENCODE_CONFIG"); own != "" && !slices.Contains(files, own) {
				files = append(files, own)
			}
			return files
		},
		adapter: func(m Machine) (string, string) { return m.config("opencode"), "plugins" },
	},
	{
		Name: "zed", Title: "Zed", Desktop: true, format: jsonFormat, command: "command", keys: []string{"context_servers"}, project: []string{".zed/settings.json"},
		user: func(m Machine) []string {
			if m.OS == "windows" {
				return []string{m.appData("Zed", "settings.json")}
			}
			return []string{m.config("zed", "settings.json")}
		},
	},
	{
		Name: "goose", Title: "goose", format: yamlFormat, command: "cmd", keys: []string{"extensions"},
		user: func(m Machine) []string {
			if m.OS == "windows" {
				return []string{m.appData("Block", "goose", "config", "config.yaml")}
			}
			return []string{m.config("goose", "config.yaml")}
		},
	},
	{ // it has no MCP servers
		Name: "pi", Title: "Pi",
		adapter: func(m Machine) (string, string) { return filepath.Join(m.Home, ".pi", "agent"), "extensions" },
	},
}
