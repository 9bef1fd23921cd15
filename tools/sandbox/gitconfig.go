package sandbox

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// writeGitConfig gives commits in the sandbox the author of the operator's configuration, which
// commands cannot read.
func writeGitConfig(home string) error {
	path := filepath.Join(home, ".gitconfig")
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	name, email := cmp.Or(gitSetting("user.name"), "worker"), cmp.Or(gitSetting("user.email"), "worker@localhost")
	text := fmt.Sprintf("[user]\n\tname = %s\n\temail = %s\n", strconv.Quote(name), strconv.Quote(email))
	return os.WriteFile(path, []byte(text), 0o600)
}

func gitSetting(key string) string {
	cmd := exec.Command("git", "config", "--global", "--get", key)
	cmd.Dir = "/"
	out, _ := cmd.Output() // without git or the setting, it is empty
	return strings.TrimSpace(string(out))
}
