//go:build unix

package command_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/command"
)

const fifoEnv = "STEVEDORE_COMMAND_FIFO"

// TestMain makes this test program a host that starts a program, which starts another
// one. Both hold the FIFO open.
func TestMain(m *testing.M) {
	if os.Getenv(fifoEnv) == "" {
		os.Exit(m.Run())
	}
	p, err := command.Start(command.Config{
		Argv:  []string{"/bin/sh", "-c", `exec 3>"$FIFO"; sleep 1000 & echo started >&3; wait`},
		Env:   command.Environment("FIFO=" + os.Getenv(fifoEnv)),
		Grace: 200 * time.Millisecond,
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("guarded")
	_, _ = io.Copy(io.Discard, os.Stdin)
	p.Close()
}

// No process that a server started survives its host: not if the host ends the server,
// and not if the host is killed.
func TestGrandchildren(t *testing.T) {
	for name, end := range map[string]func(host *exec.Cmd, stdin io.Closer) error{
		"ended":  func(_ *exec.Cmd, stdin io.Closer) error { return stdin.Close() },
		"killed": func(host *exec.Cmd, _ io.Closer) error { return host.Process.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			fifo := filepath.Join(t.TempDir(), "fifo")
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			host := exec.Command(exe)
			host.Env = append(os.Environ(), fifoEnv+"="+fifo)
			host.Stderr = os.Stderr
			stdin, err := host.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdout, err := host.StdoutPipe()
			if err == nil {
				err = host.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(stdout, make([]byte, len("guarded\n"))); err != nil {
				t.Fatal(err)
			}
			f, err := os.Open(fifo)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			started := make([]byte, len("started\n"))
			if _, err := io.ReadFull(f, started); err != nil {
				t.Fatal(err)
			}
			if err := end(host, stdin); err != nil {
				t.Fatal(err)
			}
			// The FIFO ends when no process has it open.
			if rest, err := io.ReadAll(f); err != nil || len(rest) > 0 {
				t.Errorf("%q %v", rest, err)
			}
			_ = host.Wait()
		})
	}
}

// A name has no secret: the arguments of docker have the values of variables, and an address may have a token.
func TestName(t *testing.T) {
	for want, argv := range map[string][]string{
		"npx @scope/server@1.2": {"/usr/bin/npx", "-y", "@scope/server@1.2", "secret"}, "server": {"/opt/server", "secret"}, "": nil,
		"docker": {"docker", "run", "-i", "--rm", "-e", "TOKEN=secret", "image"}, "node": {"node"},
		"uvx server": {"uvx", "--from", "git+https://secret@example.com/x", "server"}, "deno run.ts": {"deno", "run", "TOKEN=secret", "run.ts"},
	} {
		if got := command.Name(argv); got != want {
			t.Errorf("%q has the name %q, want %q", argv, got, want)
		}
	}
}
