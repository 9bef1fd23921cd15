package tools

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
)

// OutputLimits bound an Output. The zero value has sensible ones.
type OutputLimits struct {
	// Dir is where the spill file goes; empty means the system's temporary
	// directory.
	Dir string
	// Memory is how many bytes are held in memory before a file is used.
	// Default 1 MiB.
	Memory int64
	// Total is how many bytes are kept at all; what comes after is counted but
	// dropped, and Truncated reports it. Default 4 GiB.
	Total int64
}

const (
	defaultOutputMemory = 1 << 20
	defaultOutputTotal  = 4 << 30
)

// Output collects the output of a tool, whose size nobody knows beforehand. It
// is small in memory and large on disk: up to a limit the bytes stay in memory,
// beyond it they go to an unnamed spill file, so that a crash leaves nothing
// behind.
//
// Writes may come from several goroutines; ReadAt may run beside them. An
// Output is an io.ReaderAt over what was kept.
type Output struct {
	limits OutputLimits

	mu      sync.Mutex
	buf     []byte
	file    *os.File
	size    int64 // bytes kept
	newline bool  // the last byte kept is one
	dropped int64 // bytes beyond limits.Total
	err     error // the first failed write; the output is incomplete
	closed  bool
}

// NewOutput returns an empty Output.
func NewOutput(limits OutputLimits) *Output {
	if limits.Memory <= 0 {
		limits.Memory = defaultOutputMemory
	}
	if limits.Total <= 0 {
		limits.Total = defaultOutputTotal
	}
	return &Output{limits: limits}
}

// Write appends p. Bytes beyond the total limit are counted and dropped without
// an error, so that a chatty process is not blocked or killed by its pipe. A
// failed write to the spill file is returned, here and by Err.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed:
		return 0, fs.ErrClosed
	case o.err != nil:
		return 0, o.err
	}
	keep := p
	if room := max(o.limits.Total-o.size, 0); int64(len(p)) > room { // a note may stand beyond the limit
		keep = p[:room]
		o.dropped += int64(len(p)) - room
	}
	if err := o.appendLocked(keep); err != nil {
		o.err = fmt.Errorf("write spill file: %w", err)
		return 0, o.err
	}
	return len(p), nil
}

func (o *Output) appendLocked(p []byte) error {
	if o.file == nil && o.size+int64(len(p)) > o.limits.Memory {
		if err := o.spillLocked(); err != nil {
			return err
		}
	}
	if o.file == nil {
		o.buf = append(o.buf, p...)
	} else if _, err := o.file.WriteAt(p, o.size); err != nil {
		return err
	}
	o.size += int64(len(p))
	if len(p) > 0 {
		o.newline = p[len(p)-1] == '\n'
	}
	return nil
}

// spillLocked moves the buffer to a file that has no name any more: it goes
// away with the process.
func (o *Output) spillLocked() error {
	f, err := os.CreateTemp(o.limits.Dir, "stevedore-output-*")
	if err != nil {
		return err
	}
	err = os.Remove(f.Name())
	if err == nil {
		_, err = f.WriteAt(o.buf, 0)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	o.file, o.buf = f, nil
	return nil
}

// Note appends a line of the tool's own: an exit code, or that something was
// left out. It begins on a line of its own and is kept beyond the total limit.
// A failed write is reported by Err.
func (o *Output) Note(line string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.err != nil {
		return
	}
	if o.size > 0 && !o.newline {
		line = "\n" + line
	}
	if err := o.appendLocked([]byte(line)); err != nil {
		o.err = fmt.Errorf("write spill file: %w", err)
	}
}

// ReadAt reads what was kept, as io.ReaderAt says.
func (o *Output) ReadAt(p []byte, off int64) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed:
		return 0, fs.ErrClosed
	case off < 0:
		return 0, fmt.Errorf("read output: negative offset %d", off)
	case off >= o.size:
		return 0, io.EOF
	}
	var n int
	var err error
	want := p[:min(int64(len(p)), o.size-off)]
	if o.file != nil {
		n, err = o.file.ReadAt(want, off)
	} else {
		n = copy(want, o.buf[off:])
	}
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// Reader returns a reader of what is kept now, from its start.
func (o *Output) Reader() *io.SectionReader { return io.NewSectionReader(o, 0, o.Size()) }

// Text returns the whole output if it has at most limit bytes; otherwise ok is
// false and the text is empty.
func (o *Output) Text(limit int64) (text string, ok bool, err error) {
	if o.Size() > limit {
		return "", false, nil
	}
	b, err := io.ReadAll(o.Reader())
	return string(b), err == nil, err
}

// Size is the number of bytes kept.
func (o *Output) Size() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.size
}

// Truncated reports whether bytes were dropped because of the total limit.
func (o *Output) Truncated() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.dropped > 0
}

// Err is the first failed write: what is kept is not the whole output.
func (o *Output) Err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// Close frees the memory and the file. It may be called twice.
func (o *Output) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed, o.buf = true, nil
	if o.file == nil {
		return nil
	}
	f := o.file
	o.file = nil
	return f.Close()
}
