package commands

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// exportArtifact writes all bytes of an artifact to a file. The file appears when it is
// complete and has the digest of the artifact; an existing file is replaced then, and keeps its mode.
// It replaces no device and no directory.
func exportArtifact(ctx context.Context, o *client.Options, b *bus.Bus, id, file string, stderr io.Writer) (size int64, err error) {
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target
	}
	old, err := os.Stat(file)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return 0, err
	case err == nil && !old.Mode().IsRegular():
		return 0, cli.Exit(cli.ExitUsage, "--output %s: it is not a regular file; leave --output out, and let the shell write to it", file)
	}
	answer, err := client.Ask(ctx, o, b, rpc.ArtifactRecord, rpc.ArtifactRequest{ArtifactID: id})
	if err != nil {
		return 0, err
	}
	rec := answer.Out
	temp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".tmp-*")
	if err != nil {
		return 0, err
	}
	defer func() {
		temp.Close() // Sync reported what matters
		if err != nil {
			err = errors.Join(err, os.Remove(temp.Name()))
		}
	}()
	if old != nil {
		if err := temp.Chmod(old.Mode().Perm()); err != nil {
			return 0, err
		}
	}
	sha := sha256.New()
	progress := cli.StartProgress(stderr, "Saving "+tools.Excerpt(tools.OneLine(id), 40), rec.Size)
	err = rpc.Download(ctx, b, o.Session, id, 0, io.MultiWriter(temp, sha, progress))
	progress.Stop()
	if err != nil {
		return 0, err
	}
	if got := offload.DigestPrefix + hex.EncodeToString(sha.Sum(nil)); got != rec.Digest {
		return 0, fmt.Errorf("the bytes of %q have the digest %s instead of %s", id, got, rec.Digest)
	}
	if err := temp.Sync(); err != nil {
		return 0, err
	}
	return rec.Size, os.Rename(temp.Name(), file)
}
