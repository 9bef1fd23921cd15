package commands

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/mem"
	"github.com/stevedore-bus/stevedore/tools"
)

// otherDigest is a store whose records have the digest of another content.
type otherDigest struct{ offload.Store }

func (s otherDigest) Get(ctx context.Context, session, id string) (offload.Record, error) {
	rec, err := s.Store.Get(ctx, session, id)
	rec.Digest = offload.DigestPrefix + strings.Repeat("0", 64)
	return rec, err
}

func (s otherDigest) Open(ctx context.Context, rec offload.Record) (offload.Content, error) {
	rec, err := s.Store.Get(ctx, rec.Session, rec.ID)
	if err != nil {
		return nil, err
	}
	return s.Store.Open(ctx, rec)
}

// download saves the artifact a, and returns what the command says.
func download(t *testing.T, b *bus.Bus, file string) (said string, err error) {
	var stderr strings.Builder
	cmd := new(cobra.Command)
	cmd.SetErr(&stderr)
	err = downloadArtifact(t.Context(), &client.Options{Session: "s"}, b, rpc.ReadRequest{ArtifactID: "a"}, file, cmd)
	return stderr.String(), err
}

// An artifact replaces a file when all of its bytes have arrived and have its digest. Otherwise
// the file stays as it was, and nothing remains beside it.
func TestExportChecksTheDigest(t *testing.T) {
	store := mem.New(offload.StoreConfig{})
	content := bytes.Repeat([]byte("a line of the artifact\n"), offload.ReadChars/10)
	rec := offload.Record{Session: "s", Artifact: tools.Artifact{ID: "a", Truncated: true}}
	if _, err := store.Put(t.Context(), rec, bytes.NewReader(content), nil); err != nil {
		t.Fatal(err)
	}
	for name, serve := range map[string]offload.Store{"other digest": otherDigest{store}, "right digest": store} {
		t.Run(name, func(t *testing.T) {
			b := bustest.New(t)
			ready := make(chan struct{})
			bustest.Run(t, rpc.NewService(b, offload.NewReader(serve, offload.ReaderConfig{}), rpc.ServiceConfig{OnReady: func() { close(ready) }, Log: bustest.Log(t)}).Run)
			<-ready
			file := filepath.Join(t.TempDir(), "saved")
			if err := os.WriteFile(file, []byte("before"), 0o640); err != nil {
				t.Fatal(err)
			}
			said, err := download(t, b, file)
			saved, readErr := os.ReadFile(file)
			if readErr != nil {
				t.Fatal(readErr)
			}
			if serve != store {
				if err == nil || !strings.Contains(err.Error(), "digest") || string(saved) != "before" {
					t.Errorf("error %v, and the file has %d bytes: %.20q", err, len(saved), saved)
				}
			} else if err != nil || said != fmt.Sprintf("saved %d bytes to %s\nstevedore: The tool printed more than the worker keeps; the rest is lost.\n", len(content), file) ||
				!bytes.Equal(saved, content) {
				t.Errorf("%q, %v, and the file has %d bytes; want %d", said, err, len(saved), len(content))
			}
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 && runtime.GOOS != "windows" {
				t.Errorf("the mode of the file is now %v, %v", info.Mode(), err)
			}
			if files, err := os.ReadDir(filepath.Dir(file)); err != nil || len(files) != 1 {
				t.Errorf("the directory has %v, %v", files, err)
			}
		})
	}
}

// A link leads to the file that is written, and nothing replaces what is no file.
func TestExportToOtherFiles(t *testing.T) {
	store := mem.New(offload.StoreConfig{})
	if _, err := store.Put(t.Context(), offload.Record{Session: "s", Artifact: tools.Artifact{ID: "a"}}, strings.NewReader("content"), nil); err != nil {
		t.Fatal(err)
	}
	b := bustest.New(t)
	ready := make(chan struct{})
	bustest.Run(t, rpc.NewService(b, offload.NewReader(store, offload.ReaderConfig{}), rpc.ServiceConfig{OnReady: func() { close(ready) }, Log: bustest.Log(t)}).Run)
	<-ready
	export := func(file string) error {
		_, err := download(t, b, file)
		return err
	}
	dir := t.TempDir()
	link, target := filepath.Join(dir, "link"), filepath.Join(dir, "elsewhere", "target")
	if err := errors.Join(os.Mkdir(filepath.Dir(target), 0o700), os.WriteFile(target, []byte("before"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Skip("links need a right: ", err)
	}
	err := export(link)
	if text, readErr := os.ReadFile(target); err != nil || readErr != nil || string(text) != "content" {
		t.Errorf("the target of the link has %q, %v, %v", text, err, readErr)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v, %v", info, err)
	}
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := export(socket); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a socket: %v", err)
	}
	if info, err := os.Lstat(socket); err != nil || info.Mode().IsRegular() {
		t.Errorf("the socket was replaced: %v, %v", info, err)
	}
}
