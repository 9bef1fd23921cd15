package builtin

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/tools"
)

// setOutput puts the output into res: as text if it is small, otherwise as a file. Bytes
// that are not UTF-8 stay in the output, because a text would lose them, and so does an output
// with notes, which do not belong to its artifact.
func (ws *workspace) setOutput(res *tools.Result, out *tools.Output) *tools.Result {
	if err := out.Err(); err != nil {
		return ws.failed(out, "", "", err)
	}
	text, ok, err := out.Text(0)
	switch {
	case err != nil:
		_ = out.Close()
		return tools.Failure(tools.Errorf(tools.CodeToolFailed, "failed to read the output back: %v", err))
	case !ok, !utf8.ValidString(text), 0 < out.Written() && out.Written() < out.Size():
		res.Output = out
		return res
	}
	_ = out.Close()
	res.ForLLM = text
	return res
}

// failed closes an unfinished output and returns err, or the output's own error (for
// example a full disk), which is not the file's.
func (ws *workspace) failed(out *tools.Output, op, path string, err error) *tools.Result {
	_ = out.Close()
	if kept := out.Err(); kept != nil {
		return tools.Failure(tools.Errorf(tools.CodeToolFailed, "failed to keep the output: %v", kept))
	}
	return tools.Failure(ws.explain(op, path, err))
}

// showName quotes a file name if it is not safe to print on one line.
func showName(name string) string {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}

// ended returns the error of an ended context.
func ended(ctx context.Context) *tools.Error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return tools.Errorf(tools.CodeTimeout, "the call timed out")
	}
	return tools.Errorf(tools.CodeCancelled, "the call was cancelled")
}
