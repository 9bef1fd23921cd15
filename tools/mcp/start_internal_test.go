package mcp

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// A caller that gives up does not end the start that others wait for.
func TestStartIsShared(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := New(Config{Name: "other", Argv: []string{exe}, Dir: dir, Env: []string{"STEVEDORE_TOOLS_MCP_ROLE=slow"}})
	defer s.close()
	impatient, stop := context.WithCancel(t.Context())
	stop()
	if _, err := s.connect(impatient); err == nil { // it begins the start
		t.Error("a caller that gave up got a connection")
	}
	others := make(chan error, 10)
	for range cap(others) {
		go func() {
			_, err := s.connect(t.Context())
			others <- err
		}()
	}
	for range cap(others) {
		if err := <-others; err != nil {
			t.Error(err)
		}
	}
	if starts, err := os.ReadFile(filepath.Join(dir, "starts")); err != nil || len(starts) != 1 {
		t.Errorf("%d starts %v", len(starts), err)
	}
}
