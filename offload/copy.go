package offload

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/stevedore-bus/stevedore/offload/index"
)

// Copy writes a whole content to w and compares it with the digest of its record.
// If they differ, it returns ErrCorrupt. ReadAt only compares each block with its
// checksum, which finds damage but not forgery.
func Copy(w io.Writer, c Content, digest string) error {
	sha := sha256.New()
	if _, err := io.CopyBuffer(onlyWriter{io.MultiWriter(sha, w)}, io.NewSectionReader(c, 0, c.Size()), make([]byte, index.BlockSize)); err != nil {
		return fmt.Errorf("copy content: %w", err)
	}
	if got := DigestPrefix + hex.EncodeToString(sha.Sum(nil)); got != digest {
		return fmt.Errorf("copy content: its digest is %s instead of %s: %w", got, digest, ErrCorrupt)
	}
	return nil
}

// onlyWriter hides ReadFrom, so that io.CopyBuffer reads whole blocks.
type onlyWriter struct{ io.Writer }
