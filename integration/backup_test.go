package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A copy of the data directory of a stopped "up" is a backup: started from the copy, it
// runs the calls that waited, and has the results, artifacts and credentials of before,
// although the original is gone.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	u := up{data: filepath.Join(t.TempDir(), "data"), workspace: t.TempDir()}
	if err := os.WriteFile(filepath.Join(u.workspace, "big.txt"), []byte(strings.Repeat("a line\n", 20_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := launch(append(u.args(), "--console", "off")...)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"call", "read_file", "path=big.txt", "--id", "big"},
		{"cron", "add", "report", "shell", "command=true", "--cron", "0 9 * * *"},
	} {
		if o := worker(t, append(args, "--data", u.data)...); o.code != 0 {
			t.Fatalf("%q: %d\n%s%s", args, o.code, o.stdout, o.stderr)
		}
	}
	// No worker serves this queue yet.
	if o := worker(t, "call", "read_file", "path=big.txt", "--id", "waits", "--queue", "later", "--wait", "1s", "--data", u.data); o.code != 6 {
		t.Fatalf("a call without a worker: %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	if err := p.stop(); err != nil {
		t.Fatalf("%v\n%s", err, p.stderr)
	}
	backup := filepath.Join(t.TempDir(), "backup")
	if err := os.CopyFS(backup, os.DirFS(u.data)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(u.data); err != nil {
		t.Fatal(err)
	}

	u.data = backup
	start(t, append(u.args(), "--console", "off", "--queue", "default,later")...)
	for _, c := range []struct{ args, want string }{
		{"call read_file path=big.txt --id big --json", `"attempt":1`}, // the stored result; the tool does not run again
		{"call read_file path=big.txt --id waits --queue later --json", `"outcome":"completed"`},
		{"artifacts grep big line -m 1", "a line"},
		{"cron ls", "report"},
	} {
		if o := worker(t, append(strings.Fields(c.args), "--data", u.data)...); o.code != 0 || !strings.Contains(o.stdout, c.want) {
			t.Errorf("%s: %d, no %q in\n%s%s", c.args, o.code, c.want, o.stdout, o.stderr)
		}
	}
}
