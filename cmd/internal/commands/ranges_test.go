package commands

import (
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/tools"
)

// Commands with the same flag refuse the same values.
func TestCommandsRefuseTheSameValues(t *testing.T) {
	token := tools.TokenOf("a session")
	for want, commands := range map[string][]string{
		`--limit "-1": want 0 or more`: {"tasks ls --limit -1", "artifacts ls --limit -1", "cron ls --limit -1", "dead ls --limit -1", "sessions ls --limit -1"},
		"this is the token of a session": {"run --session " + token + " -- true", "read x --session " + token, "mcp wrap --session " + token + " -- cat",
			"hook claude-code --session " + token},
	} {
		for _, command := range commands {
			var stdout, stderr strings.Builder
			code := run(t.Context(), strings.Fields(command), strings.NewReader("{}"), &stdout, &stderr)
			if code != 2 || !strings.Contains(stderr.String(), want) {
				t.Errorf("%s: exit code %d, %s%s", command, code, &stdout, &stderr)
			}
		}
	}
}
