package offload

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

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
	// note is text that the tool added after content that is not text, such as an exit
	// code. It is not stored.
	note string
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
		return b, b.splitNote(res.Output)
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

// splitNote takes the notes off content that is not text, so that the store gets exactly
// the bytes of the content.
func (b *body) splitNote(out *tools.Output) error {
	written, size := out.Written(), b.raw.Size()
	if written == 0 || written == size || b.inMemory && utf8.ValidString(b.text) {
		return nil
	}
	if typ, _, err := kind(out, written); err != nil || typ != TypeBinary && !b.inMemory {
		return err
	}
	note, err := readRange(out, written, size-written)
	if err != nil {
		return err
	}
	b.note = strings.Trim(string(note), "\n")
	b.raw, b.plain = io.NewSectionReader(out, 0, written), io.NewSectionReader(out, 0, written)
	if b.inMemory {
		b.text = b.text[:written]
	}
	return nil
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

// addNote adds the note to the text for the model.
func (b body) addNote(out *tools.Result) {
	if b.note != "" {
		out.ForLLM += "\n" + b.note
	}
}

// withoutStore returns what a model gets of content that is not UTF-8 if nothing is stored.
func (b body) withoutStore() string {
	text := tools.EscapeBytes(b.text)
	if typ, media, err := kind(b.plain, b.plain.Size()); err == nil && typ == TypeBinary {
		text = fmt.Sprintf("The result is %d bytes of %s, which is not text. They were not kept, because offloading is off.", b.plain.Size(), attribute(media))
	}
	if b.note != "" {
		text += "\n" + b.note
	}
	return text
}
