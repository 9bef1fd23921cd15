//go:build unix

package admin_test

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/bustest"
)

// If a restoration dies, the server keeps a part of a stream. Then there is no stream of calls, so that nothing runs on
// what is left and the status has a problem, and the next restoration says why it begins nothing.
func TestRestorationDies(t *testing.T) {
	t.Parallel()
	from := bustest.New(t)
	blobs, err := from.JetStream().ObjectStore(t.Context(), from.BucketName(bus.BlobsBucket))
	if err == nil {
		content := make([]byte, 3<<20) // the server begins with the first MiB
		_, _ = rand.Read(content)      // it never fails
		_, err = blobs.PutBytes(t.Context(), "x", content)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir, s := filepath.Join(t.TempDir(), "backup"), bustest.Server(t)
	if _, err := admin.Backup(t.Context(), from, dir, func(string) {}); err != nil {
		t.Fatal(err)
	}
	dies, after := bustest.Dial(t, s, bus.Config{}), bustest.Dial(t, s, bus.Config{})
	name := "OBJ_" + dies.BucketName(bus.BlobsBucket)
	parts := bustest.Subscribe(t, after, "$JS.SNAPSHOT.RESTORE."+name+".*")
	file := filepath.Join(dir, name, "stream.arc.s2")
	data, err := os.ReadFile(file)
	if err == nil {
		err = errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)) // the test says when the process reads on
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		pipe, err := os.OpenFile(file, os.O_WRONLY, 0)
		if err == nil {
			_, err = pipe.Write(data[:len(data)*2/3])
		}
		dies.Conn().Close()
		if err = errors.Join(err, pipe.Close()); err != nil {
			t.Error(err)
		}
	}()
	if _, err = admin.Restore(t.Context(), dies, dir, func(string) {}); err == nil || !exists(t, after, name) {
		t.Fatalf("%v; the server has the bucket: %t", err, exists(t, after, name))
	}
	_, err = bus.CheckStreams(t.Context(), after)
	missing, ok := errors.AsType[*bus.MissingError](err)
	if !ok || !slices.Equal(missing.Names, []string{after.StreamName(bus.Calls)}) {
		t.Errorf("what is missing: %v", err)
	}
	if _, err := admin.Restore(t.Context(), after, dir, func(string) {}); err == nil || !strings.Contains(err.Error(), "an interrupted restoration") {
		t.Errorf("again: %v", err)
	}
	if _, err := admin.Restore(t.Context(), from, dir, func(string) {}); err == nil || strings.Contains(err.Error(), "interrupted") {
		t.Errorf("on the server in use: %v", err)
	}
	if m, err := parts.NextMsg(bustest.Timeout); err != nil || after.Conn().Publish(m.Subject, nil) != nil {
		t.Error(err) // otherwise the server waits for more parts
	}
}
