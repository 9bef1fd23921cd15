package builtin

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/gabriel-vasile/mimetype"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/charset"
)

type readFileArgs struct {
	Path   string `json:"path" jsonschema:"the file, relative to the workspace"`
	Offset int64  `json:"offset,omitempty" jsonschema:"the first line to read, counted from 1; default 1"`
	Limit  int64  `json:"limit,omitempty" jsonschema:"how many lines to read; default all"`
}

func newReadFile(ws *workspace) *tools.FuncTool {
	return tools.MustTool("read_file",
		"Read a text file of the workspace: the whole file, or limit lines from line offset on.", ws.readFile).WithEffect(tools.Idempotent)
}

func (ws *workspace) readFile(ctx context.Context, _ tools.Call, args readFileArgs) *tools.Result {
	if args.Offset < 0 || args.Limit < 0 {
		return tools.Failure(tools.Errorf(tools.CodeInvalidArguments, "offset and limit must not be negative"))
	}
	f, info, err := ws.open(args.Path)
	if err != nil {
		return tools.Failure(err)
	}
	defer f.Close()
	encoding, err := checkText(f, args.Path, info.Size())
	if err != nil {
		return tools.Failure(err)
	}

	out := tools.NewOutput(ws.cfg.Output)
	lines := &lineRange{first: max(args.Offset, 1), limit: args.Limit, dst: out}
	if err := lines.copy(ctx, charset.NewReader(f, encoding)); err != nil {
		return ws.failed(out, "read file", args.Path, err)
	}
	if lines.first > 1 && lines.line < lines.first {
		_ = out.Close()
		return tools.Failure(tools.Errorf(tools.CodeInvalidArguments, "offset %d is after the end of %q, which has %d lines", args.Offset, args.Path, lines.line))
	}
	switch {
	case info.Size() == 0 && out.Size() == 0:
		out.Note("(the file is empty)")
	case out.Truncated():
		out.Note(fmt.Sprintf("[truncated: only the first %d bytes of these lines were kept; use offset and limit]", out.Size()))
	case lines.more:
		out.Note(fmt.Sprintf("[more lines follow; continue with offset %d]", lines.first+lines.limit))
	}
	if encoding != "" {
		out.Note(fmt.Sprintf("[the file is %s, which edit_file keeps; write_file writes UTF-8]", encoding))
	}
	return ws.setOutput(&tools.Result{Silent: true}, out)
}

// checkText refuses files that are not text, and returns the encoding of others, as package charset names it.
func checkText(f *os.File, path string, size int64) (encoding string, err error) {
	encoding, head, isText, err := sniff(f, size)
	switch {
	case err != nil:
		err = tools.Errorf(tools.CodeToolFailed, "failed to read file %q: %v", path, err)
	case !isText:
		err = tools.Errorf(tools.CodeToolFailed, "%q is not a text file: it is %s, %d bytes", path, mimetype.Detect(head), size)
	}
	return encoding, err
}

// sniffLen is how many bytes of a file decide whether it is text.
const sniffLen = 8 << 10

// sniff returns the encoding and the start of a file, and whether it is text.
func sniff(f *os.File, size int64) (encoding string, head []byte, isText bool, err error) {
	head = make([]byte, sniffLen)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return "", nil, false, err
	}
	head = head[:n]
	encoding, err = charset.Of(f, size, true)
	return encoding, head, encoding != "" || isTextWithoutNUL(head), err
}

// isTextWithoutNUL reports whether a content is UTF-8, or a text in another encoding, whose letters are shown as bytes.
func isTextWithoutNUL(head []byte) bool {
	return bytes.IndexByte(head, 0) < 0 && (isUTF8(head) || strings.HasPrefix(mimetype.Detect(head).String(), "text/"))
}

// isUTF8 reports whether a text is UTF-8. It may end within a rune.
func isUTF8(head []byte) bool { return utf8.Valid(head[:len(head)-charset.OpenRune(head)]) }

// lineRange copies limit lines from line first on (all lines if limit is 0). Lines may
// be longer than its buffer.
type lineRange struct {
	first, limit int64
	dst          io.Writer

	line int64 // the current line
	more bool  // more lines follow the range
}

func (r *lineRange) copy(ctx context.Context, src io.Reader) error {
	in := bufio.NewReaderSize(src, 128<<10)
	for start := true; ; {
		if ctx.Err() != nil {
			return ended(ctx)
		}
		part, err := in.ReadSlice('\n') // a line, or a part of a long one
		if start && len(part) > 0 {
			r.line++
		}
		if r.more = len(part) > 0 && r.limit > 0 && r.line-r.first >= r.limit; r.more {
			return nil
		}
		if r.line >= r.first {
			if _, err := r.dst.Write(part); err != nil {
				return err
			}
		}
		switch start = err == nil; {
		case err == io.EOF:
			return nil
		case err != nil && err != bufio.ErrBufferFull:
			return err
		}
	}
}
