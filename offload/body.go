package offload

import (
	"fmt"
	"io"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
)

// body is the content of a result for the model.
type body struct {
	// raw is what the store gets: every byte.
	raw *io.SectionReader
	// plain is the text for estimates and previews: raw, or the texts of the
	// content blocks.
	plain *io.SectionReader
	// text becomes ForLLM if the body is inline. A large text is not inMemory.
	text      string
	inMemory  bool
	blocks    []contentBlock // nil if the result is plain text
	truncated bool
}

// bodyOf returns the body of a result. It reads a text of at most limit bytes into
// memory.
func bodyOf(res *tools.Result, limit int64) (body, error) {
	switch {
	case res.Output != nil:
		if err := res.Output.Err(); err != nil {
			return body{}, fmt.Errorf("the output is not complete: %w", err)
		}
		b := body{raw: res.Output.Reader(), plain: res.Output.Reader(), truncated: res.Output.Truncated()}
		text, ok, err := res.Output.Text(limit)
		if err != nil {
			return body{}, fmt.Errorf("read the output: %w", err)
		}
		b.text, b.inMemory = text, ok
		return b, nil
	case res.Blocks != nil:
		if blocks, err := parseBlocks(res.Blocks); err == nil {
			b := body{raw: sectionOf(string(res.Blocks)), text: blocksText(blocks), inMemory: true, blocks: blocks}
			b.plain = sectionOf(b.text)
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
	return body{raw: sectionOf(text), plain: sectionOf(text), text: text, inMemory: true}
}

func sectionOf(text string) *io.SectionReader {
	return io.NewSectionReader(strings.NewReader(text), 0, int64(len(text)))
}

// inline puts the whole body into out. If out has blocks, ForLLM is for readers
// that understand only text.
func (b body) inline(out *tools.Result) {
	out.ForLLM = b.text
	if b.blocks == nil {
		out.Blocks = nil
	}
}
