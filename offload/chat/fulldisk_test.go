//go:build unix

package chat

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("CHAT_TEST_FULL_DISK"); dir != "" {
		os.Exit(onFullDisk(dir))
	}
	os.Exit(m.Run())
}

// TestFullDisk runs this test binary again under a limit on the size of files,
// so that the kernel itself cuts a write short.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "CHAT_TEST_FULL_DISK="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	wantFile(t, filepath.Join(dir, "s", "a.md"), `[`+result("a", "old")+`]`)
	wantFiles(t, dir, "s/a.md", "tool-result-first.md")
}

// onFullDisk runs in the child process, where no file can exceed 4 KiB.
func onFullDisk(dir string) int {
	signal.Ignore(syscall.SIGXFSZ)
	limit := syscall.Rlimit{Cur: 4096, Max: 4096}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		fmt.Println("set limit:", err)
		return 1
	}
	ctx := context.Background()
	parse := func(text string) Message {
		m, err := ParseMessage([]byte(text))
		if err != nil {
			panic(err)
		}
		return m
	}
	big := strings.Repeat("x", 10_000)
	if _, err := OffloadMessage(ctx, parse(user(result("a", "old"))), "s", dir); err != nil {
		fmt.Println("small message:", err)
		return 1
	}
	if res, err := OffloadMessage(ctx, parse(user(result("a", big))), "s", dir); !errors.Is(err, syscall.EFBIG) || res.File != "" {
		fmt.Println("message:", res, err)
		return 1
	}
	if res, err := OffloadResults(ctx, parse(user(result("b", big))), "s", dir, 0); !errors.Is(err, syscall.EFBIG) || res.File != "" {
		fmt.Println("results:", res, err)
		return 1
	}
	messages := []Message{parse(user(result("first", strings.Repeat("y", 200)), result("second", big)))}
	if res, err := OffloadHistory(ctx, messages, dir, Options{}); !errors.Is(err, syscall.EFBIG) || res.Messages != nil {
		fmt.Println("history:", res, err)
		return 1
	}
	return 0
}
