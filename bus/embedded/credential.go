package embedded

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/state/durable"
)

// credentialFile contains the password of the server. Only the owner may read it:
// a client that knows the password can run tools.
const credentialFile = "credential"

// Credential returns the password that is stored in dir, or "" if there is none that the user can read.
func Credential(dir string) string {
	data, _ := os.ReadFile(filepath.Join(dir, credentialFile))
	return strings.TrimSpace(string(data))
}

// credential returns the password stored in dir, and creates it at the first start.
func credential(dir string) (string, error) {
	if dir == "" {
		return "", errors.New("no data directory")
	}
	name := filepath.Join(dir, credentialFile)
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return newCredential(dir, name)
	}
	if err != nil {
		return "", fmt.Errorf("read credential: %w", err)
	}
	password := strings.TrimSpace(string(data))
	if password == "" || strings.ContainsFunc(password, func(r rune) bool { return r == utf8.RuneError || unicode.IsControl(r) }) {
		return "", fmt.Errorf("the credential in %q is empty or damaged; remove the file to get a new one", name)
	}
	return password, nil
}

func newCredential(dir, name string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make data directory: %w", err)
	}
	password := rand.Text()
	if err := durable.WriteFile(name, []byte(password+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write credential: %w; choose a writable data directory", err)
	}
	return password, nil
}
