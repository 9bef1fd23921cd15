package embedded_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/bus/status"
)

// A full disk only loses messages that the server rejected. When the disk has space again,
// the server continues with all acknowledged messages. The test mounts a file system, which
// requires root.
func TestDiskWasFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=64m"); err != nil {
		t.Skip("cannot mount a small disk: ", err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	s := bustest.Start(t, embedded.Config{Dir: filepath.Join(dir, "data"), Listen: "127.0.0.1:0", NoSync: true})
	inside := bustest.Connect(t, s, bus.Config{MaxBytes: 4 << 20})
	outside, err := bus.Connect(t.Context(), bus.Config{Server: s.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(outside.Close)
	before := put(t, outside, 100)

	filler := filepath.Join(dir, "filler")
	if err := s.CheckDisk(); err != nil {
		t.Errorf("with space: %v", err)
	}
	fill(t, filler)
	if err := s.CheckDisk(); err == nil || !strings.Contains(err.Error(), "are free") {
		t.Errorf("before the first write on a full disk: %v", err)
	}
	var refused atomic.Int64
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			m := bus.Message{Subject: bustest.NewCall(outside, "default", "echo"), Body: bytes.Repeat([]byte("x"), 500_000), Key: fmt.Sprint("full", i)}
			if _, err := outside.Publish(ctx, m); err != nil {
				refused.Add(1)
			}
		})
	}
	group.Wait()
	if refused.Load() == 0 {
		t.Fatal("a full disk accepted every message")
	}
	if err := s.CheckDisk(); err == nil {
		t.Error("the server does not say that its disk is full")
	}
	if got := fmt.Sprint(status.ReadRefusals(t.Context(), outside)); !strings.Contains(got, "STEVEDORE_CALLS stores nothing") || !strings.Contains(got, "no space") {
		t.Errorf("the status says %s", got)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	after := put(t, outside, 1)
	if after < before+1 {
		t.Errorf("sequence %d after the disk was full, %d before", after, before)
	}
	if err := s.CheckDisk(); err != nil {
		t.Error(err)
	}
	if got := status.ReadRefusals(t.Context(), outside); len(got) > 0 {
		t.Errorf("with space, the status says %s", got)
	}
	put(t, inside, 1) // the in-process connection was restored, too
	if n := bustest.Messages(t, inside, bus.Calls); n < 102 {
		t.Errorf("%d messages are left of 102 acknowledged ones", n)
	}
}

// put publishes n calls until they are acknowledged, and returns the last sequence.
func put(t *testing.T, b *bus.Bus, n int) (sequence uint64) {
	t.Helper()
	for i := range n {
		key := fmt.Sprint(t.Name(), i, time.Now().UnixNano())
		bustest.WaitUntil(t, "an acknowledgement", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			ack, err := b.Publish(ctx, bus.Message{Subject: bustest.NewCall(b, "default", "echo"), Body: []byte("{}"), Key: key})
			sequence = ack.Sequence
			return err == nil
		})
	}
	return sequence
}

// fill fills the disk.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
	}
}

// A server that has stored its share of the disk gets three quarters of what is still free.
func TestShareOfTheDiskGrows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=64m"); err != nil {
		t.Skip("cannot mount a small disk: ", err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	s := bustest.Start(t, embedded.Config{Dir: filepath.Join(dir, "data"), Listen: "127.0.0.1:0", NoSync: true})
	b, err := bus.Connect(t.Context(), bus.Config{Server: s.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if _, err := b.JetStream().CreateStream(t.Context(), jetstream.StreamConfig{Name: "FILLER", Subjects: []string{"filler"}}); err != nil {
		t.Fatal(err)
	}
	put := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // a publish while the server restarts has no answer
		defer cancel()
		_, err := b.JetStream().Publish(ctx, "filler", bytes.Repeat([]byte("x"), 500_000))
		return err
	}
	stored := 0
	for ; stored < 128 && put() == nil; stored++ {
	}
	if stored < 80 || stored > 110 {
		t.Errorf("%d of 128 messages fit into three quarters of the disk", stored)
	}
	bustest.WaitUntil(t, "the server to accept more", func() bool { return put() == nil })
	if err := s.CheckDisk(); err != nil {
		t.Error(err)
	}
}
