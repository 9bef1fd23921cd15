package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/stevedore-bus/stevedore/tools"
)

// inMemory is the size up to which a message is in memory, in bytes.
const inMemory = 1 << 20

// Body is the text of a message, in memory or in a temporary file.
type Body struct {
	data  []byte
	spool *tools.Output // nil if the text is in data
}

// BodyOf returns a body of data.
func BodyOf(data []byte) *Body { return &Body{data: data} }

// Size is the length in bytes.
func (b *Body) Size() int64 {
	if b.spool != nil {
		return b.spool.Size()
	}
	return int64(len(b.data))
}

// ReadAt implements io.ReaderAt.
func (b *Body) ReadAt(p []byte, off int64) (int, error) {
	if b.spool != nil {
		return b.spool.ReadAt(p, off)
	}
	return bytes.NewReader(b.data).ReadAt(p, off)
}

// Close removes the temporary file.
func (b *Body) Close() {
	if b.spool != nil {
		_ = b.spool.Close() // its content is of no use any more
	}
}

// InMemory reports whether the text is in memory.
func (b *Body) InMemory() bool { return b.spool == nil }

// Bytes returns a value of at most limit bytes.
func (b *Body) Bytes(v Value, limit int64) ([]byte, error) {
	if v.Len() > limit {
		return nil, fmt.Errorf("a value has %d bytes, more than %d", v.Len(), limit)
	}
	if b.spool == nil {
		return b.data[v.Start:v.End], nil
	}
	p := make([]byte, v.Len())
	_, err := io.ReadFull(b.Reader(v), p)
	return p, err
}

// Decode decodes a value of at most limit bytes into out.
func (b *Body) Decode(v Value, limit int64, out any) error {
	data, err := b.Bytes(v, limit)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, out)
}

// Reader returns the bytes of a value.
func (b *Body) Reader(v Value) *io.SectionReader {
	return io.NewSectionReader(b, v.Start, v.Len())
}

// Strings returns the decoded text of a string, of any size.
func (b *Body) Strings(v Value) io.Reader {
	return newUnescaper(io.NewSectionReader(b, v.Start+1, v.Len()-2))
}

// Base64 returns the decoded bytes of a string in base64.
func (b *Body) Base64(v Value) io.Reader {
	return base64.NewDecoder(base64.StdEncoding, b.Strings(v))
}

func (b *Body) scanner(from int64) *scanner {
	if b.spool == nil {
		return &scanner{buf: b.data, i: int(from), end: int64(len(b.data))}
	}
	return &scanner{src: b.spool, base: from, end: b.spool.Size()}
}

// Edit replaces the bytes From to To (exclusive) of a body. With From = To it inserts.
type Edit struct {
	From, To int64
	With     []byte
}

// WriteEdited writes the body with edits, which must not overlap, and a newline. It
// replaces line breaks, which are white space in JSON, so that the message is a line.
func (b *Body) WriteEdited(w io.Writer, edits []Edit) error {
	edits = slices.Clone(edits)
	slices.SortStableFunc(edits, func(a, b Edit) int { return int(min(max(a.From-b.From, -1), 1)) })
	from := int64(0)
	for _, e := range edits {
		if err := b.writeRange(w, from, e.From); err != nil {
			return err
		}
		if _, err := w.Write(e.With); err != nil {
			return err
		}
		from = e.To
	}
	if err := b.writeRange(w, from, b.Size()); err != nil {
		return err
	}
	_, err := w.Write([]byte{'\n'})
	return err
}

func (b *Body) writeRange(w io.Writer, from, to int64) error {
	if b.spool == nil && bytes.IndexByte(b.data[from:to], '\n') < 0 && bytes.IndexByte(b.data[from:to], '\r') < 0 {
		_, err := w.Write(b.data[from:to])
		return err
	}
	buf := make([]byte, min(scanBuffer, to-from))
	for from < to {
		n, err := b.ReadAt(buf[:min(int64(len(buf)), to-from)], from)
		for i, c := range buf[:n] {
			if c == '\n' || c == '\r' {
				buf[i] = ' '
			}
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
		from += int64(n)
		if err != nil && !errors.Is(err, io.EOF) || n == 0 {
			return errors.Join(err, io.ErrUnexpectedEOF)
		}
	}
	return nil
}
