package commands

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Without --token, the token is in a file that only this user reads, and not in the output,
// which hosts and service managers log. It is the same after a restart.
func TestTokenIsNotPrinted(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	var first string
	for range 2 {
		var out bytes.Buffer
		o := mcpHTTP{Address: "127.0.0.1:0"}
		if _, err := o.guard("s", data, &out); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(data, "mcp.token")
		token, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm()&0o077 != 0 || first != "" && first != string(token) {
			t.Errorf("%v %v, %q then %q", info, err, first, token)
		}
		first = string(token)
		if text := out.String(); strings.Contains(text, strings.TrimSpace(first)) || !strings.Contains(text, file) {
			t.Errorf("the output is %q", text)
		}
	}
}
