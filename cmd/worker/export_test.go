package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

// An artifact replaces a file when all of its bytes have arrived and have its digest. Otherwise
// the file stays as it was, and nothing remains beside it.
func TestExportChecksTheDigest(t *testing.T) {
	store := mem.New(offload.StoreConfig{})
	content := bytes.Repeat([]byte("a line of the artifact\n"), offload.ReadChars/10)
	if _, err := store.Put(t.Context(), offload.Record{Session: "s", Artifact: tools.Artifact{ID: "a"}}, bytes.NewReader(content), nil); err != nil {
		t.Fatal(err)
	}
	for name, serve := range map[string]offload.Store{"other digest": otherDigest{store}, "right digest": store} {
		t.Run(name, func(t *testing.T) {
			b := bustest.New(t)
			ready := make(chan struct{})
			bustest.Run(t, rpc.NewService(b, offload.NewReader(serve, offload.ReaderConfig{}), rpc.ServiceConfig{OnReady: func() { close(ready) }, Log: bustest.Log(t)}).Run)
			<-ready
			file := filepath.Join(t.TempDir(), "saved")
			if err := os.WriteFile(file, []byte("before"), 0o600); err != nil {
				t.Fatal(err)
			}
			size, err := exportArtifact(t.Context(), &client.Options{Session: "s"}, b, "a", file, io.Discard)
			saved, readErr := os.ReadFile(file)
			if readErr != nil {
				t.Fatal(readErr)
			}
			if serve != store {
				if err == nil || !strings.Contains(err.Error(), "digest") || string(saved) != "before" {
					t.Errorf("error %v, and the file has %d bytes: %.20q", err, len(saved), saved)
				}
			} else if err != nil || size != int64(len(content)) || !bytes.Equal(saved, content) {
				t.Errorf("saved %d bytes, %v, and the file has %d; want %d", size, err, len(saved), len(content))
			}
			if files, err := os.ReadDir(filepath.Dir(file)); err != nil || len(files) != 1 {
				t.Errorf("the directory has %v, %v", files, err)
			}
		})
	}
}
