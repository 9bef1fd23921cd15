package cli

import (
	"os/exec"
	"testing"
)

// A shell returns the original text.
func TestShellWord(t *testing.T) {
	for _, word := range []string{"", "plain-1", "/home/me/my data", `it's "$HOME" \ * ; #`, "~", "ümlaut", "a\\'b"} {
		out, err := exec.Command("sh", "-c", "printf %s "+ShellWord(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q as %s: the shell returns %q, %v", word, ShellWord(word), out, err)
		}
	}
	if got := ShellWord("plain-1"); got != "plain-1" {
		t.Errorf("a plain word is quoted: %s", got)
	}
	if got, want := ShellWord("a\x1b[31m\nb"), "'a[31mb'"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
