package builtin

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/charset"
)

type editFileArgs struct {
	Path    string `json:"path" jsonschema:"the file, relative to the workspace"`
	OldText string `json:"old_text" jsonschema:"the text to replace, exactly as in the file; it must occur exactly once, so include enough surrounding text"`
	NewText string `json:"new_text" jsonschema:"the new text"`
}

func newEditFile(ws *workspace) *tools.FuncTool {
	return tools.MustTool("edit_file",
		"Replace one piece of text in a file of the workspace and return the diff.", ws.editFile)
}

func (ws *workspace) editFile(ctx context.Context, _ tools.Call, args editFileArgs) *tools.Result {
	switch {
	case args.OldText == "":
		return tools.Failure(tools.Errorf(tools.CodeInvalidArguments, "old_text is empty; to write a whole file, use write_file"))
	case args.OldText == args.NewText:
		return tools.Failure(tools.Errorf(tools.CodeInvalidArguments, "old_text and new_text are the same"))
	}
	return ws.change(ctx, "edit file", args.Path, func(rel string) (string, error) {
		content, encoding, info, err := ws.readForEdit(rel, args.Path)
		if err != nil {
			return "", err
		}
		if !utf8.ValidString(content) && !isASCII(args.OldText+args.NewText) { // whose letters would have other bytes
			return "", fmt.Errorf("it has bytes that are not UTF-8, so that only ASCII can be edited; convert it first, for example with shell: iconv")
		}
		change, err := findEdit(content, args)
		if err != nil {
			return "", err
		}
		data, err := charset.Encode(change.apply(content), encoding)
		if err != nil {
			return "", fmt.Errorf("%w; convert the file first, for example with shell: iconv -f %s -t UTF-8", err, encoding)
		}
		err = ws.replace(ctx, rel, []byte(data), info)
		return "File edited: " + showName(args.Path) + "\n" + change.diff(showName(args.Path), content), err
	})
}

func isASCII(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

// maxEdit is the size, in bytes, of the largest file that edit_file reads into memory.
const maxEdit = 16 << 20

// readForEdit returns the text of a file as read_file shows it, and its encoding.
func (ws *workspace) readForEdit(rel, path string) (text, encoding string, info fs.FileInfo, err error) {
	if info, err := ws.target(rel); err != nil {
		return "", "", nil, err
	} else if info == nil {
		return "", "", nil, fs.ErrNotExist
	}
	f, info, err := ws.open(path)
	if err != nil {
		return "", "", nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxEdit+1))
	if err != nil {
		return "", "", nil, err
	}
	if len(content) > maxEdit {
		return "", "", nil, fmt.Errorf("it has more than %d bytes; use shell", maxEdit)
	}
	if encoding, err = checkText(f, path, int64(len(content))); err != nil {
		return "", "", nil, err
	}
	if text, err = charset.Decode(string(content), encoding); err != nil {
		return "", "", nil, err
	}
	if again, err := charset.Encode(text, encoding); err != nil || again != string(content) {
		return "", "", nil, fmt.Errorf("it is %s with characters that are not valid, which an edit would lose; use shell", encoding)
	}
	return text, encoding, info, nil
}

// edit replaces length bytes at a position.
type edit struct {
	at, length int
	text       string
}

// findEdit finds the only occurrence of old_text. In a file whose lines all end in
// CRLF, the newlines of the arguments also match CRLF.
func findEdit(content string, args editFileArgs) (edit, error) {
	old, text := args.OldText, args.NewText
	if allCRLF(content) {
		if !strings.Contains(content, old) {
			old = toCRLF(old)
		}
		text = toCRLF(text)
	}
	count := countAll(content, old)
	switch {
	case count == 0:
		return edit{}, tools.Errorf(tools.CodeToolFailed, "old_text not found in %q; it must match exactly, including white space%s",
			args.Path, nearest(content, args.OldText))
	case count > 1:
		return edit{}, tools.Errorf(tools.CodeToolFailed, "old_text appears %d times in %q (%s); add surrounding lines so that it is "+
			"unique", count, args.Path, places(content, old))
	}
	if old == text {
		return edit{}, tools.Errorf(tools.CodeInvalidArguments, "old_text and new_text are the same")
	}
	return edit{at: strings.Index(content, old), length: len(old), text: text}, nil
}

func (e edit) apply(content string) string {
	return content[:e.at] + e.text + content[e.at+e.length:]
}

// diff returns the change with three lines of context, or a summary if it is too long.
func (e edit) diff(path, content string) string {
	const context = 3
	summary := fmt.Sprintf("[%d bytes replaced by %d]", e.length, len(e.text))
	if e.length+len(e.text) > maxDiff {
		return summary
	}
	begin, stop := e.at, e.at+e.length // of the lines around the edit
	for range context + 1 {
		begin = strings.LastIndexByte(content[:max(begin, 0)], '\n')
		if next := strings.IndexByte(content[stop:], '\n'); next >= 0 {
			stop += next + 1
		} else {
			stop = len(content)
		}
	}
	begin++
	around := edit{e.at - begin, e.length, e.text}
	number := 1 + strings.Count(content[:begin], "\n")
	before, after := slices.Collect(strings.Lines(content[begin:stop])), slices.Collect(strings.Lines(around.apply(content[begin:stop])))
	first, end, endAfter := 0, len(before), len(after)
	for first < min(end, endAfter) && before[first] == after[first] {
		first++
	}
	for first < min(end, endAfter) && before[end-1] == after[endAfter-1] {
		end, endAfter = end-1, endAfter-1
	}
	from, rest := max(0, first-context), min(context, len(before)-end)
	var diff strings.Builder
	fmt.Fprintf(&diff, "--- %s\n+++ %s\n@@ -%s +%s @@\n", path, path, place(number+from, end+rest-from), place(number+from, endAfter+rest-from))
	write := func(sign string, lines []string) {
		for _, line := range lines {
			diff.WriteString(sign + line)
			if !strings.HasSuffix(line, "\n") {
				diff.WriteString("\n\\ No newline at end of file\n")
			}
		}
	}
	write(" ", before[from:first])
	write("-", before[first:end])
	write("+", after[first:endAfter])
	write(" ", before[end:end+rest])
	if diff.Len() > maxDiff {
		return summary
	}
	return tools.EscapeBytes(diff.String())
}

// place names lines as a unified diff does: if there are none, by the line before them.
func place(first, count int) string {
	switch count {
	case 0:
		return fmt.Sprintf("%d,0", first-1)
	case 1:
		return strconv.Itoa(first)
	}
	return fmt.Sprintf("%d,%d", first, count)
}

// maxDiff is the longest diff, in bytes.
const maxDiff = 64 << 10

func allCRLF(s string) bool {
	n := strings.Count(s, "\r\n")
	return n > 0 && n == strings.Count(s, "\n")
}

func toCRLF(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}

// maxCount is the largest count of occurrences.
const maxCount = 1000

// countAll counts the occurrences of part, including overlapping ones: "aa" occurs
// twice in "aaa".
func countAll(s, part string) int {
	n := 0
	for n < maxCount {
		i := strings.Index(s, part)
		if i < 0 {
			return n
		}
		n++
		s = s[i+1:]
	}
	return n
}
