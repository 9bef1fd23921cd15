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

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// downloadArtifact writes all bytes of an artifact from an offset on to a file or to the standard output, and
// says which part of the result it lacks.
func downloadArtifact(ctx context.Context, o *client.Options, b *bus.Bus, in rpc.ReadRequest, file string, cmd *cobra.Command) error {
	answer, err := client.Ask(ctx, o, b, rpc.ArtifactRecord, rpc.ArtifactRequest{ArtifactID: in.ArtifactID})
	switch rec := answer.Out; {
	case err != nil:
		return err
	case file == "" || file == "-":
		err = rpc.Download(ctx, b, o.Session, in.ArtifactID, in.Offset, cmd.OutOrStdout())
	default:
		if err = exportArtifact(ctx, o, b, rec, file, cmd.ErrOrStderr()); err == nil && o.JSON {
			err = cli.JSON(cmd.OutOrStdout(), map[string]any{"artifact_id": rec.ID, "file": file, "size": rec.Size})
		} else if err == nil {
			err = cli.Line(cmd.ErrOrStderr(), "saved %d bytes to %s", rec.Size, file)
		}
	}
	for _, lost := range answer.Out.Lost() {
		_ = cli.Line(cmd.ErrOrStderr(), "stevedore: %s", lost) // it is in the record, too
	}
	return err
}

// exportArtifact writes all bytes of an artifact to a file. The file appears when it is
// complete and has the digest of the artifact; an existing file is replaced then, and keeps its mode.
// It replaces no device and no directory.
func exportArtifact(ctx context.Context, o *client.Options, b *bus.Bus, rec offload.Record, file string, stderr io.Writer) (err error) {
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target
	}
	old, err := os.Stat(file)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case err == nil && !old.Mode().IsRegular():
		return cli.Exit(cli.ExitUsage, "--output %s: it is not a regular file; leave --output out, and let the shell write to it", file)
	}
	temp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".tmp-*")
	if err != nil {
		return err
	}
	defer func() {
		temp.Close() // Sync reported what matters
		if err != nil {
			err = errors.Join(err, os.Remove(temp.Name()))
		}
	}()
	if old != nil {
		if err := temp.Chmod(old.Mode().Perm()); err != nil {
			return err
		}
	}
	sha := sha256.New()
	progress := cli.StartProgress(stderr, "Saving "+tools.Excerpt(tools.OneLine(rec.ID), 40), rec.Size)
	err = rpc.Download(ctx, b, o.Session, rec.ID, 0, io.MultiWriter(temp, sha, progress))
	progress.Stop()
	if err != nil {
		return err
	}
	if got := offload.DigestPrefix + hex.EncodeToString(sha.Sum(nil)); got != rec.Digest {
		return fmt.Errorf("the bytes of %q have the digest %s instead of %s", rec.ID, got, rec.Digest)
	}
	if err := temp.Sync(); err != nil {
		return err
	}
	return os.Rename(temp.Name(), file)
}
