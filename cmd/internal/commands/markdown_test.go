package commands

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/tools"
)

// A terminal shows the styles of Markdown, tables and the addresses of links, and no code of the
// model itself.
func TestStyledText(t *testing.T) {
	const text = "# Title\n\n**bold** and *italic* and `code`\n\n| a | b |\n|---|---|\n| long cell | x |\n\n- one\n- [docs](https://example.com)\n\n```go\nf()\n```\n"
	got := styledText(text)
	for _, want := range []string{"\x1b[1mTitle\x1b[0m", "\x1b[1mbold\x1b[0m", "\x1b[3mitalic\x1b[0m", "\x1b[36mcode\x1b[0m", "long cell  x", "\x1b[4mdocs\x1b[0m (https://example.com)", "f()"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if strings.Contains(got, "**") || strings.Contains(got, "|---") || strings.Contains(got, "```") {
		t.Errorf("the marks of Markdown are in %q", got)
	}
	for _, hostile := range []string{"**a**\x1b[31m red", "a\x1b]0;title\x07", "x\u202egpj"} {
		if got := styledText(hostile); strings.Contains(strings.ReplaceAll(strings.ReplaceAll(got, "\x1b[1m", ""), "\x1b[0m", ""), "\x1b") || strings.Contains(got, "\u202e") {
			t.Errorf("%q became %q", hostile, got)
		}
	}
	for _, odd := range []string{"**bold**\r\n\r\nnext\r\n", "**bold** \u05d0\u200f next", "**bold** \x07 next"} {
		if got := styledText(odd); !strings.HasPrefix(got, "\x1b[1mbold\x1b[0m") || !strings.Contains(got, "next") || strings.ContainsAny(got, "\r\x07\u200f") {
			t.Errorf("%q became %q", odd, got)
		}
	}
	var out bytes.Buffer
	if err := writeMarkdown(&out, text); err != nil || out.String() != text {
		t.Errorf("a pipe gets %q, %v", out.String(), err)
	}
}

// The view writes a text that arrives in pieces block by block, whatever the pieces are, and once.
func TestMarkdownInPieces(t *testing.T) {
	const text = "**First** paragraph.\n\n```\ncode\n\nmore code\n```\n\n1. one\n2. two\n\nThe **end**."
	for size := 1; size < len(text); size += 3 {
		var out, notes bytes.Buffer
		v := agentView{stdout: &out, stderr: &notes, stream: true, styled: true}
		for at := 0; at < len(text); at += size {
			v.add(tools.ProgressEvent{Progress: tools.Progress{Activity: []tools.Activity{{Type: tools.ActivityText, Turn: 1, Offset: at, Text: text[at:min(at+size, len(text))]}}}})
			if at+size > len("**First** paragraph.\n\n") && !strings.Contains(out.String(), "\x1b[1mFirst") {
				t.Fatalf("after %d bytes, the terminal shows %q", at+size, out.String())
			}
		}
		if err := v.answer(text); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); strings.Count(got, "First") != 1 || strings.Count(got, "more code") != 1 || !strings.HasSuffix(got, "The \x1b[1mend\x1b[0m.\n") {
			t.Errorf("in pieces of %d bytes, the terminal shows %q", size, got)
		}
	}
}
