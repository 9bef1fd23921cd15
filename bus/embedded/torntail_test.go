//go:build unix

package embedded_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/bus/status"
)

// A process that dies during a write leaves an incomplete record, which was not
// acknowledged. That is no damage. A record whose length is damaged looks similar.
func TestTornTailIsNotDamage(t *testing.T) {
	t.Parallel()
	const body = 200
	last := func(block []byte) int { return bytes.LastIndex(block, []byte("stevedore.result.s.c19")) - 22 }
	for name, test := range map[string]struct {
		crash     func(block []byte) []byte
		isDamaged bool
		messages  uint64
	}{
		"a part of the last record":   {func(b []byte) []byte { return b[:len(b)-7] }, false, 19},
		"a part of a header":          {func(b []byte) []byte { return b[:last(b)+9] }, false, 19},
		"zeros":                       {func(b []byte) []byte { return append(b, make([]byte, 4096)...) }, false, 20},
		"another byte in the middle":  {func(b []byte) []byte { b[len(b)/2] ^= 1; return b }, true, 0},
		"another length in the first": {func(b []byte) []byte { b[2] ^= 1; return b }, true, 0},
		"another length in the one before the last": {func(b []byte) []byte {
			length := binary.LittleEndian.Uint32(b[last(b):])
			b[last(b)-int(length)+2] ^= 1
			return b
		}, true, 18},
		"zeros in the middle": {func(b []byte) []byte { clear(b[len(b)/2:][:body]); return b }, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var log errorLog
			start := func() (*embedded.Server, *bus.Bus) {
				s, err := embedded.Start(embedded.Config{Dir: dir, NoSync: true, Log: zerolog.New(&log).Level(zerolog.WarnLevel)})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(s.Close)
				return s, bustest.Connect(t, s, bus.Config{})
			}
			files := filepath.Join(dir, "jetstream", "$G", "streams", "STEVEDORE_RESULTS", "msgs")
			block, index := filepath.Join(files, "1.blk"), filepath.Join(files, "index.db")
			read := func(name string) []byte {
				data, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				return data
			}
			write := func(name string, data []byte) {
				if err := os.WriteFile(name, data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var before []byte // the index that a crash leaves behind is older than the block
			for i := range 2 {
				s, b := start()
				for j := range 10 {
					subject := fmt.Sprintf("stevedore.result.s.c%d", 10*i+j)
					if _, err := b.Publish(t.Context(), bus.Message{Subject: subject, Body: bytes.Repeat([]byte("x"), body)}); err != nil {
						t.Fatal(err)
					}
				}
				b.Close()
				s.Close()
				if i == 0 {
					before = read(index)
				}
			}
			write(index, before)
			write(block, test.crash(read(block)))

			s, b := start()
			bustest.WaitUntil(t, "the log that names the stream", func() bool {
				return strings.Contains(log.String(), "incomplete record") || strings.Contains(log.String(), "is damaged")
			})
			problems := strings.Join(status.Read(t.Context(), b).Problems, "\n")
			if strings.Contains(problems, "STEVEDORE_RESULTS is damaged") != test.isDamaged {
				t.Errorf("the status has the problems %q", problems)
			}
			fill, err := b.Fill(t.Context(), bus.Results)
			if err != nil || test.messages > 0 && fill.Messages != test.messages {
				t.Errorf("%d messages remain, want %d; %v", fill.Messages, test.messages, err)
			}
			b.Close()
			s.Close()
			if text := log.String(); strings.Contains(text, "damaged") != test.isDamaged {
				t.Errorf("the log has %q", text)
			}
		})
	}
}
