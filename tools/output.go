package tools

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
)

// OutputLimits are the limits of an Output. The zero value works.
type OutputLimits struct {
	// Dir is the directory of the spill file; empty means the system's temporary
	// directory.
	Dir string
	// Memory is how many bytes are kept in memory before a file is used. Default
	// 1 MiB.
	Memory int64
	// Total is how many bytes are kept. Later bytes are dropped, and Truncated
	// reports it. Default 4 GiB.
	Total int64
}

const (
	defaultOutputMemory = 1 << 20
	defaultOutputTotal  = 4 << 30
)

// Output collects the output of a tool, whose size is not known in advance. It keeps
// a small output in memory and a large one in a spill file, which has no name, so that
// a crash leaves no file.
//
// Output is safe for concurrent use. It is an io.ReaderAt of the kept bytes.
type Output struct {
	limits OutputLimits

	mu      sync.Mutex
	buf     []byte
	file    *os.File
	size    int64 // bytes kept
	written int64 // bytes up to the end of the last Write
	newline bool  // the last kept byte is a newline
	dropped int64 // bytes beyond limits.Total
	err     error // the first failed write; the output is incomplete
	closed  bool
}

// NewOutput returns an empty Output.
func NewOutput(limits OutputLimits) *Output {
	limits.Memory = cmp.Or(max(limits.Memory, 0), defaultOutputMemory)
	limits.Total = cmp.Or(max(limits.Total, 0), defaultOutputTotal)
	return &Output{limits: limits}
}

// Write appends p. It drops bytes beyond the total limit without an error, so that a
// process with much output is neither blocked nor killed by its pipe. Write and Err
// return the error of a failed write to the spill file.
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
	if free := max(o.limits.Total-o.size, 0); int64(len(p)) > free { // a note may exceed the limit
		keep = p[:free]
		o.dropped += int64(len(p)) - free
	}
	if err := o.appendLocked(keep); err != nil {
		o.err = fmt.Errorf("write spill file: %w", err)
		return 0, o.err
	}
	o.written = o.size
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

// spillLocked moves the buffer to a file and removes the name of the file, so that it
// ends with the process.
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

// Note appends a line that the tool itself adds, such as an exit code. Note starts a
// new line if necessary and ignores the total limit. Err returns the error of a failed
// write.
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

// ReadAt implements io.ReaderAt for the kept bytes.
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

// Reader returns a reader of the bytes that are kept now.
func (o *Output) Reader() *io.SectionReader { return io.NewSectionReader(o, 0, o.Size()) }

// Text returns the whole output if it has at most limit bytes, or, if that is 0, as many as are kept in
// memory. Otherwise ok is false.
func (o *Output) Text(limit int64) (text string, ok bool, err error) {
	if o.Size() > cmp.Or(limit, o.limits.Memory) {
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

// Written is the number of bytes kept before the notes that follow the last Write.
func (o *Output) Written() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.written
}

// Truncated reports whether bytes were dropped because of the total limit.
func (o *Output) Truncated() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.dropped > 0
}

// Err is the error of the first failed write, after which the output is incomplete.
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
