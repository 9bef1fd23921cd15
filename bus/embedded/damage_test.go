//go:build unix

package embedded_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/bus/status"
)

// errorLog collects the errors that the server logs.
type errorLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *errorLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *errorLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// If a block of a stream is damaged, the server drops messages. The log, the status and the
// stream itself say so, also after another start, until an operator accepts the loss.
func TestDamagedStream(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		at    int64 // of the damage in the block
		crash bool  // after which the server reads all blocks
	}{"found at the start": {1000, true}, "found by a reader": {0, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var log errorLog
			start := func() (*embedded.Server, *bus.Bus) {
				s, err := embedded.Start(embedded.Config{Dir: dir, NoSync: true, Log: zerolog.New(&log).Level(zerolog.ErrorLevel)})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(s.Close)
				return s, bustest.Connect(t, s, bus.Config{})
			}
			s, b := start()
			stream := filepath.Join(dir, "jetstream", "$G", "streams", "STEVEDORE_RESULTS", "msgs")
			index := filepath.Join(stream, "index.db")
			var crashed []byte
			for i := range 20 {
				if i == 10 {
					b.Close()
					s.Close()
					var err error
					if crashed, err = os.ReadFile(index); err != nil {
						t.Fatal(err)
					}
					s, b = start()
				}
				if _, err := b.Publish(t.Context(), bus.Message{Subject: fmt.Sprintf("stevedore.result.s.c%d", i), Body: bytes.Repeat([]byte("x"), 200)}); err != nil {
					t.Fatal(err)
				}
			}
			b.Close()
			s.Close()
			block, err := os.OpenFile(filepath.Join(stream, "1.blk"), os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := block.WriteAt(make([]byte, 24), test.at); err != nil {
				t.Fatal(err)
			}
			if err := block.Close(); err != nil {
				t.Fatal(err)
			}
			if test.crash {
				if err := os.WriteFile(index, crashed, 0o600); err != nil {
					t.Fatal(err)
				}
			}

			s, b = start()
			_, _, _ = b.LastMessage(t.Context(), bus.Results, "stevedore.result.s.c0") // the server reads the block
			damaged := func(b *bus.Bus) bool {
				for _, problem := range status.Read(t.Context(), b).Problems {
					if strings.Contains(problem, "STEVEDORE_RESULTS is damaged") && strings.Contains(problem, "restore a backup") {
						return true
					}
				}
				return false
			}
			bustest.WaitUntil(t, "the status that names the damaged stream", func() bool { return damaged(b) })
			bustest.WaitUntil(t, "the log that names the damaged stream", func() bool {
				text := log.String()
				return strings.Contains(text, "STEVEDORE_RESULTS") && strings.Contains(text, "restore a backup")
			})
			if f, err := b.Fill(t.Context(), bus.Results); err != nil || f.Damaged == "" {
				t.Errorf("the fill is %+v, %v", f, err)
			}
			b.Close()
			s.Close()

			_, b = start()
			if !damaged(b) {
				t.Error("after another start, the status does not name the damaged stream")
			}
			// The last message is lost. The server did not accept another one in its place before.
			publishing, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if _, err := b.Publish(publishing, bus.Message{Subject: "stevedore.result.s.c19", Body: []byte("again")}); err != nil {
				t.Errorf("publish in the place of a lost message: %v", err)
			}
			if _, err := b.Provision(t.Context(), true); err != nil {
				t.Fatal(err)
			}
			if damaged(b) {
				t.Error("provisioning with an update did not accept the loss")
			}
		})
	}
}

// A stream that was only stopped or killed is not damaged.
func TestStreamIsNotDamaged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	serverURL, kill := startServerProcess(t, dir, "127.0.0.1:0")
	b, err := bus.Connect(t.Context(), bus.Config{Server: serverURL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Provision(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if _, err := b.Publish(t.Context(), bus.Message{Subject: fmt.Sprintf("stevedore.result.s.c%d", i), Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	b.Close()
	kill()
	var log errorLog
	s, err := embedded.Start(embedded.Config{Dir: dir, NoSync: true, Log: zerolog.New(&log).Level(zerolog.ErrorLevel)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	b = bustest.Connect(t, s, bus.Config{})
	if problems := strings.Join(status.Read(t.Context(), b).Problems, "\n"); strings.Contains(problems, "damaged") || log.String() != "" {
		t.Errorf("after a kill, the status has the problems %q, and the log %q", problems, log.String())
	}
}
