package offload

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/tools"
)

// body is what a result has for the model, wherever it is kept.
type body struct {
	// raw is what gets stored: every byte of it.
	raw *io.SectionReader
	// prose is what tokens are estimated of and previews are made of: raw, or
	// the texts of content blocks.
	prose *io.SectionReader
	// text is what ForLLM becomes if the body is shown whole. A large one is
	// not inMemory.
	text      string
	inMemory  bool
	blocks    []contentBlock // nil if the result is plain text
	truncated bool
}

// bodyOf finds what the result has for the model. A text of at most limit bytes
// is taken into memory.
func bodyOf(res *tools.Result, limit int64) (body, error) {
	switch {
	case res.Output != nil:
		if err := res.Output.Err(); err != nil {
			return body{}, fmt.Errorf("the output is not complete: %w", err)
		}
		b := body{raw: res.Output.Reader(), prose: res.Output.Reader(), truncated: res.Output.Truncated()}
		text, ok, err := res.Output.Text(limit)
		if err != nil {
			return body{}, fmt.Errorf("read the output: %w", err)
		}
		b.text, b.inMemory = text, ok
		return b, nil
	case res.Blocks != nil:
		if blocks, err := parseBlocks(res.Blocks); err == nil {
			b := body{raw: sectionOf(string(res.Blocks)), text: blocksText(blocks), inMemory: true, blocks: blocks}
			b.prose = sectionOf(b.text)
			if res.ForLLM != "" {
				b.text = res.ForLLM
			}
			return b, nil
		}
		return textBody(string(res.Blocks)), nil
	}
	return textBody(res.ForLLM), nil
}

func textBody(text string) body {
	return body{raw: sectionOf(text), prose: sectionOf(text), text: text, inMemory: true}
}

func sectionOf(text string) *io.SectionReader {
	return io.NewSectionReader(strings.NewReader(text), 0, int64(len(text)))
}

// fits reports whether the body can be published in room bytes.
func (b body) fits(room int) bool {
	if !b.inMemory || b.raw.Size() > int64(room) {
		return false
	}
	n := jsonLen(b.text)
	for _, block := range b.blocks {
		n += rawJSONLen(block.raw) + 1
	}
	return n <= room
}

// show puts the whole body into light. Beside blocks ForLLM is for those who
// know only text.
func (b body) show(light *tools.Result) {
	light.ForLLM = b.text
	if b.blocks == nil {
		light.Blocks = nil
	}
}

// jsonLen is at least the number of bytes that encoding/json writes for s,
// quotes included.
func jsonLen(s string) int {
	n := 2
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			i += size
			if r == utf8.RuneError && size == 1 || r == '\u2028' || r == '\u2029' {
				n += 6
			} else {
				n += size
			}
			continue
		}
		i++
		switch {
		case c == '"', c == '\\', c == '\n', c == '\r', c == '\t':
			n += 2
		case c < ' ', c == '<', c == '>', c == '&':
			n += 6
		default:
			n++
		}
	}
	return n
}

// rawJSONLen is at least the number of bytes that encoding/json writes for a
// RawMessage, which it compacts and escapes for HTML.
func rawJSONLen(raw json.RawMessage) int {
	n := len(raw)
	for _, c := range string(raw) {
		switch c {
		case '<', '>', '&':
			n += 5
		case '\u2028', '\u2029':
			n += 3
		}
	}
	return n
}
