package client

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// Upload makes a file of this machine an artifact of a session, under the id of a raw result,
// and returns the id of the artifact. A worker of the queue takes it from the object store.
func Upload(ctx context.Context, b *bus.Bus, queue, session, id, file string) (artifact string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return "", cli.Exit(cli.ExitUsage, "--file: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", cli.Exit(cli.ExitUsage, "--file %s: it is not a regular file", file)
	}
	objects, err := b.JetStream().ObjectStore(ctx, b.BucketName(bus.BlobsBucket))
	if errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return "", cli.Exit(cli.ExitUsage, "--file: the workers keep artifacts on disk, so they take no files; put the file into their workspace")
	}
	if err != nil {
		return "", fmt.Errorf("upload %s: %w", file, err)
	}
	raw := tools.RawEvent{
		Call:   tools.Call{ID: id, Session: session, Tool: offload.ToolUpload, Action: filepath.Base(file)},
		Silent: true,
	}
	raw.Object = raw.SessionToken() + "/" + raw.IDToken()
	if _, err := objects.Put(ctx, jetstream.ObjectMeta{Name: raw.Object}, f); err != nil {
		return "", fmt.Errorf("upload %s: %w", file, err)
	}
	event, err := rpc.SubmitRaw(ctx, b, queue, raw)
	switch {
	case err != nil:
		return "", fmt.Errorf("upload %s: %w", file, err)
	case event.Artifact == nil:
		return "", fmt.Errorf("upload %s: %s", file, event.ForLLM)
	}
	return event.Artifact.ID, nil
}
