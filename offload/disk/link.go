package disk

import (
	"bytes"
	"crypto/rand"
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

// show gives the content its name in the session, in place of what has it. The
// name is not durable yet; what it replaces may be, so there is always one.
func (s *Store) show(name, blob string) error {
	if err := s.dir.mkdir(path.Dir(name)); err != nil {
		return err
	}
	err := s.place(blob, name)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	has, err := s.compare(name, blob)
	if err != nil || has == linked {
		return err
	}
	t := &tempFile{dir: s.dir, name: tempDir + "/" + rand.Text()}
	defer t.discard()
	if has == copied {
		if !s.links || s.dir.root.Link(blob, t.name) != nil {
			return nil // the copy is as good
		}
	} else if err := s.place(blob, t.name); err != nil {
		return err
	}
	return t.become(name)
}

// place gives the content in a file another name, which must be free: a link
// to it, or a durable copy where there can be none.
func (s *Store) place(from, to string) error {
	if s.links {
		if err := s.dir.root.Link(from, to); err == nil || !cannotLink(err) {
			return err
		}
	}
	if _, err := s.dir.root.Lstat(to); err == nil {
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

// free fails if a file that is not the store's has the name. Without a record,
// one is the store's if it is the blob, or if a crash of the machine kept the
// name of some other blob and lost the record.
func (s *Store) free(name, blob string) error {
	has, err := s.compare(name, blob)
	if err != nil || has != other {
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
	has, err = s.compare(name, blobDir+"/"+hex.EncodeToString(sha.Sum(nil)))
	if errors.Is(err, fs.ErrNotExist) || err == nil && has == other {
		return fmt.Errorf("%w: %q was not written by this store; move it away", offload.ErrExists, name)
	}
	return err
}

// what a name has, compared with a blob
type likeness int

const (
	nothing likeness = iota
	other
	copied
	linked
)

// compare tells what is at name. fs.ErrNotExist: something is, and no blob.
func (s *Store) compare(name, blob string) (likeness, error) {
	f, have, err := s.dir.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nothing, nil
	}
	if err != nil {
		return nothing, err
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
