package offload

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
)

// show gives the content its name in the session, in place of what has it. The
// name is not durable yet.
func (s *DiskStore) show(name, blob string) error {
	if err := s.dir.mkdir(path.Dir(name)); err != nil {
		return err
	}
	there, same, err := s.compare(name, blob)
	if err != nil || same {
		return err
	}
	if there {
		err = s.dir.remove(name)
	}
	if err == nil && s.links {
		if err = s.dir.root.Link(blob, name); err == nil {
			return nil
		}
	}
	if err != nil && !cannotLink(err) {
		return err
	}
	return s.dir.replace(name, func(w io.Writer) error {
		f, _, err := s.dir.open(blob)
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
func (s *DiskStore) free(name, blob string) error {
	there, same, err := s.compare(name, blob)
	if !there || same || err != nil {
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
	_, same, err = s.compare(name, blobDir+"/"+hex.EncodeToString(sha.Sum(nil)))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !same {
		return fmt.Errorf("%w: %q was not written by this store; move it away", ErrExists, name)
	}
	return err
}

// compare reports whether name is there, and whether it is the blob or a copy
// of it.
func (s *DiskStore) compare(name, blob string) (there, same bool, err error) {
	f, have, err := s.dir.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	defer f.Close()
	b, want, err := s.dir.open(blob)
	if err != nil {
		return true, false, err
	}
	defer b.Close()
	if os.SameFile(have, want) || have.Size() != want.Size() {
		return true, os.SameFile(have, want), nil
	}
	same, err = sameBytes(f, b)
	return true, same, err
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
