package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
)

// writeGitConfig gives commits in the sandbox the author of the operator's
// configuration, which commands cannot read, or the name of the operator's account.
func writeGitConfig(home string) error {
	path := filepath.Join(home, ".gitconfig")
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	name, email := gitSetting("user.name"), gitSetting("user.email")
	account := "worker"
	if u, err := user.Current(); err == nil && u.Username != "" {
		account = u.Username
	}
	if name == "" {
		name = account
	}
	if email == "" {
		email = account + "@localhost"
	}
	text := fmt.Sprintf("[user]\n\tname = %s\n\temail = %s\n", strconv.Quote(name), strconv.Quote(email))
	err := os.WriteFile(path, []byte(text), 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

func gitSetting(key string) string {
	cmd := exec.Command("git", "config", "--global", "--get", key)
	cmd.Dir = "/"
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
