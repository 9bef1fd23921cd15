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

// inline is the largest output that is handed over as text: by then it is held
// in memory anyway.
func (ws *workspace) inline() int64 {
	if ws.cfg.Output.Memory > 0 {
		return ws.cfg.Output.Memory
	}
	return 1 << 20
}

// setOutput moves out into res: as text if it is small, else as it is.
func (ws *workspace) setOutput(res *tools.Result, out *tools.Output) *tools.Result {
	if err := out.Err(); err != nil {
		// What is kept is not the whole; say so instead of passing it off.
		return ws.failed(out, "", "", err)
	}
	text, ok, err := out.Text(ws.inline())
	switch {
	case err != nil:
		_ = out.Close()
		return tools.Failure(tools.Errorf(tools.CodeToolFailed, "failed to read the output back: %v", err))
	case !ok:
		res.Output = out
		return res
	}
	_ = out.Close() // memory only, or an unnamed file that was read
	res.ForLLM = strings.ToValidUTF8(text, string(utf8.RuneError))
	return res
}

// failed closes an unfinished output and says why it is one. The output's own
// failure (a full disk) is told as such: it is not the file's.
func (ws *workspace) failed(out *tools.Output, op, path string, err error) *tools.Result {
	_ = out.Close()
	if kept := out.Err(); kept != nil {
		return tools.Failure(tools.Errorf(tools.CodeToolFailed, "failed to keep the output: %v", kept))
	}
	return tools.Failure(ws.explain(op, path, err))
}

// showName writes a file name so that it stays on its line and does nothing to
// a terminal.
func showName(name string) string {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}

// ended says why ctx is over.
func ended(ctx context.Context) *tools.Error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return tools.Errorf(tools.CodeTimeout, "the call timed out")
	}
	return tools.Errorf(tools.CodeCancelled, "the call was cancelled")
}
