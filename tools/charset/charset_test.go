package charset_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/tools/charset"
)

// TestOf: a text is decoded only if its encoding is certain, wherever its letters are.
func TestOf(t *testing.T) {
	ascii := strings.Repeat("a line of ASCII\n", 10_000)
	for name, row := range map[string]struct{ text, want, decoded string }{
		"ASCII":                 {ascii, "", ascii},
		"nothing":               {"", "", ""},
		"UTF-8":                 {ascii + "Zürich\n", "", ascii + "Zürich\n"},
		"Latin-1":               {"many Gr\xfc\xdfe", charset.Latin1, "many Grüße"},
		"Latin-1 far behind":    {ascii + "caf\xe9 \x80", "", ascii + "caf\xe9 \x80"},
		"a word far behind":     {ascii + "caf\xe9", charset.Latin1, ascii + "café"},
		"UTF-8 far behind":      {"caf\xe9 \n" + ascii + "Zürich\n", "", "caf\xe9 \n" + ascii + "Zürich\n"},
		"UTF-16":                {"\xff\xfe\xfc\x00a\x00", charset.UTF16LE, "üa"},
		"UTF-16 of big endians": {"\xfe\xff\x00\xfc\x00a", charset.UTF16BE, "üa"},
		"a picture":             {"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"},
	} {
		got, err := charset.Of(strings.NewReader(row.text), int64(len(row.text)), true)
		text, decodeErr := charset.Decode(row.text, got)
		streamed, _ := io.ReadAll(charset.NewReader(strings.NewReader(row.text), got))
		if again, _ := charset.Encode(text, got); got != row.want || err != nil || decodeErr != nil || text != row.decoded || string(streamed) != text || again != row.text {
			t.Errorf("%s is %q, %v: %.100q", name, got, err, text)
		}
	}
	if _, err := charset.Encode("→", charset.Latin1); err == nil {
		t.Error("Latin-1 has an arrow")
	}
	if _, err := charset.Of(strings.NewReader("a"), 5, true); err != io.ErrUnexpectedEOF {
		t.Errorf("a file that shrinks: %v", err)
	}
}

// TestOfAtBlocks: where blocks of a content meet, a letter has the same neighbours.
func TestOfAtBlocks(t *testing.T) {
	for before := 64<<10 - 6; before <= 64<<10+2; before++ {
		ascii := strings.Repeat("-", before)
		for text, want := range map[string]string{"caf\xe9": charset.Latin1, "\xe9t": charset.Latin1, " \xe9 ": "", "é": "", "€x": "", "\xe9": ""} {
			content := ascii + text + "-------------------"
			if got, err := charset.Of(strings.NewReader(content), int64(len(content)), true); got != want || err != nil {
				t.Errorf("%q behind %d bytes is %q, %v", text, before, got, err)
			}
		}
	}
}

func BenchmarkOf(b *testing.B) {
	for name, line := range map[string]string{"ascii": "a line of some ASCII\n", "latin1": "gr\xfc\xdfe und mehr text\n"} {
		text := bytes.Repeat([]byte(line), 1<<20/len(line))
		b.Run(fmt.Sprint(name), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := charset.Of(bytes.NewReader(text), int64(len(text)), true); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
