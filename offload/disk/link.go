package disk

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/stevedore-bus/stevedore/offload"
)

// linkArtifact links the blob as the content file and atomically replaces any existing
// file. The caller must sync the directory to make the link durable.
func (s *Store) linkArtifact(name, blob string) error {
	if err := s.dir.mkdir(path.Dir(name)); err != nil {
		return err
	}
	err := s.linkOrCopy(blob, name)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	existing, err := s.compare(name, blob)
	if err != nil || existing == linked {
		return err
	}
	temp := tempName()
	if existing == copied {
		if !s.links || s.dir.Root.Link(blob, temp) != nil {
			return nil // keep the copy
		}
	} else if err := s.linkOrCopy(blob, temp); err != nil {
		return err
	}
	err = s.dir.retryRename(name, func(name string) error { return s.dir.Root.Rename(temp, name) })
	if err != nil {
		err = errors.Join(err, s.dir.Root.Remove(temp))
	}
	return err
}

// linkOrCopy links a file to another name, which must not exist. It makes a durable copy
// if the file system has no links.
func (s *Store) linkOrCopy(from, to string) error {
	if s.links {
		if err := s.dir.Root.Link(from, to); err == nil || !cannotLink(err) {
			return err
		}
	}
	if _, err := s.dir.Root.Lstat(to); err == nil {
		return fs.ErrExist
	}
	return s.dir.replace(to, func(w io.Writer) error {
		f, _, err := s.dir.open(from)
		if err != nil {
			return err
		}
		_, err = io.Copy(w, f)
		return errors.Join(err, f.Close())
	})
}

// ensureFree returns ErrExists if the name is that of a file that the store did not
// write. A file without a record belongs to the store if it is a link or a copy of the
// blob, or of another blob whose record was lost in a power loss.
func (s *Store) ensureFree(name, blob string) error {
	existing, err := s.compare(name, blob)
	if err != nil || existing != other {
		return err
	}
	f, _, err := s.dir.open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	sha := sha256.New()
	if _, err := io.Copy(sha, f); err != nil {
		return err
	}
	existing, err = s.compare(name, blobDir+"/"+hex.EncodeToString(sha.Sum(nil)))
	if errors.Is(err, fs.ErrNotExist) || err == nil && existing == other {
		return fmt.Errorf("%w: %q was not written by this store; move it away", offload.ErrExists, name)
	}
	return err
}

// comparison is the relation of a file to a blob.
type comparison int

const (
	missing comparison = iota
	other              // another content
	copied             // the same content in another file
	linked             // the same file
)

// compare compares a file with a blob. It returns fs.ErrNotExist if only the blob is
// missing.
func (s *Store) compare(name, blob string) (comparison, error) {
	f, have, err := s.dir.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return missing, nil
	}
	if err != nil {
		return missing, err
	}
	defer f.Close()
	b, want, err := s.dir.open(blob)
	if err != nil {
		return other, err
	}
	defer b.Close()
	if os.SameFile(have, want) {
		return linked, nil
	}
	if have.Size() != want.Size() {
		return other, nil
	}
	if same, err := sameBytes(f, b); err != nil || !same {
		return other, err
	}
	return copied, nil
}

func sameBytes(a, b io.Reader) (bool, error) {
	p, q := make([]byte, 32<<10), make([]byte, 32<<10)
	for {
		n, err := io.ReadFull(a, p)
		m, _ := io.ReadFull(b, q)
		if !bytes.Equal(p[:n], q[:m]) {
			return false, nil
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
}
