package commands

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

const (
	codex = "codex"
	// codexWaits is the time after which the model of Codex sees what a command prints, for
	// example that a server is up.
	codexWaits = 20 * time.Second
)

// rewritten is the answer to Codex that runs a command by "stevedore run", in the shell that
// Codex has chosen. Codex applies its approvals and its sandbox to the new command.
func (o *hookOptions) rewritten(event claudeEvent) map[string]any {
	command, _ := event.Input["command"].(string)
	self, err := os.Executable()
	if o.host != codex || event.Tool != "Bash" || command == "" || err != nil ||
		readsBack(command) || runtime.GOOS == "windows" || hasCodexRules(event.Directory) {
		return nil
	}
	event.Input["command"] = fmt.Sprintf(`%s run --host codex%s -- "${BASH:-${ZSH_NAME:-sh}}" -c '%s'`,
		cli.ShellWord(self), placeOf(o.Session, o.Connection.Data), withinQuotes(command))
	return map[string]any{"permissionDecision": "allow", "updatedInput": event.Input}
}

var strictRule = lazyregexp.New(`forbidden|prompt`)

// hasCodexRules reports whether rules of the computer, the user or the project may forbid a
// command or ask for it.
func hasCodexRules(dir string) bool {
	home, err := os.UserHomeDir()
	if _, managed := os.Stat("/etc/codex/requirements.toml"); managed == nil || err != nil {
		return true
	}
	configs := []string{"/etc/codex", cmp.Or(os.Getenv("CODEX_HOME"), filepath.Join(home, ".codex"))}
	for last := ""; dir != last; last, dir = dir, filepath.Dir(dir) {
		configs = append(configs, filepath.Join(dir, ".codex"))
	}
	for _, config := range configs {
		rules := os.DirFS(filepath.Join(config, "rules"))
		names, _ := fs.Glob(rules, "*.rules") // the pattern is valid
		for _, name := range names {
			if text, err := fs.ReadFile(rules, name); err != nil || strictRule.Match(text) {
				return true
			}
		}
	}
	return false
}
