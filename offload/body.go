package offload

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/charset"
	"github.com/stevedore-bus/stevedore/tools/jsonform"
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
	// note is what the tool added to the content, such as an exit code. It is not stored.
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
		err = b.splitNote(res.Output)
		return b, err
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

// splitNote takes the notes off the content, so that the store gets exactly the bytes of the
// content. An output of notes only is content.
func (b *body) splitNote(out *tools.Output) error {
	written := out.Written()
	if written == 0 || written == b.raw.Size() {
		return nil
	}
	note, err := readRange(out, written, b.raw.Size()-written)
	if err != nil {
		return err
	}
	b.note = string(note)
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
	out.ForLLM = b.text + b.note
	if b.blocks == nil {
		out.Blocks = nil
	}
}

// withNote adds the note to a text that stands for the content.
func (b body) withNote(text string) string {
	if b.note == "" {
		return text
	}
	return text + "\n" + strings.Trim(b.note, "\n")
}

// withoutStore returns what a model gets of content that is not UTF-8 if nothing is stored.
func (b body) withoutStore() string {
	name, _ := charset.Of(b.plain, b.plain.Size(), utf8.RuneCountInString(b.text) == len(b.text)) // the text is in memory
	text := b.readable(name)
	if typ, media, _, err := kind(b.plain, b.plain.Size()); name == "" && err == nil && typ == TypeBinary {
		text = fmt.Sprintf("The result is %d bytes of %s, which is not text. They were not kept, because offloading is off.", b.plain.Size(), attribute(media))
	}
	return b.withNote(text)
}

// readable returns the text in an encoding as UTF-8, with escapes for what is not text.
func (b body) readable(name string) string {
	text, err := charset.Decode(b.text, name)
	if err != nil {
		text = b.text
	}
	return tools.EscapeBytes(text)
}

// readableNotice follows the readable text of an artifact that is not UTF-8.
func readableNotice(rec Record) string {
	if name := rec.charset(); name != "" {
		return fmt.Sprintf("[this is the text of %s; the artifact '%s' has the exact bytes]", name, rec.ID)
	}
	return fmt.Sprintf("[each \\xNN stands for a byte that is not UTF-8; the artifact '%s' has the exact bytes]", rec.ID)
}

// summarize is summarize, with the text of content blocks as the preview.
func (b body) summarize(ctx context.Context) func(*Record, Content) error {
	return func(rec *Record, c Content) error {
		err := summarize(ctx)(rec, c)
		if b.blocks == nil || err != nil {
			return err
		}
		chars, err := countChars(b.plain, b.plain.Size())
		if err == nil {
			rec.Summary, err = previewOf(b.plain, b.plain.Size(), chars, 0)
		}
		return err
	}
}

// contentBlock is a part of a message, as the chat APIs and MCP define them.
type contentBlock struct {
	raw   json.RawMessage
	text  string // the text for a model; of media only a description
	media bool   // an image, a sound or a file
}

// parseBlocks parses an array of content blocks. It accepts any value: the text of
// a block that it does not know is the block's JSON.
func parseBlocks(data json.RawMessage) ([]contentBlock, error) {
	var raws []json.RawMessage
	if err := json.Unmarshal(data, &raws); err != nil {
		return nil, fmt.Errorf("content blocks: want a JSON array: %w", err)
	}
	blocks := make([]contentBlock, len(raws))
	for i, raw := range raws {
		blocks[i] = parseBlock(raw)
	}
	return blocks, nil
}

func parseBlock(raw json.RawMessage) contentBlock {
	var b struct {
		Type     string  `json:"type"`
		Text     *string `json:"text"`
		MimeType string  `json:"mimeType"`
		Source   struct {
			MediaType string `json:"media_type"`
		} `json:"source"`
	}
	if err := json.Unmarshal(raw, &b); err != nil {
		return contentBlock{raw: raw, text: string(raw)}
	}
	switch b.Type {
	case "text":
		if b.Text != nil {
			return contentBlock{raw: raw, text: *b.Text}
		}
	case "image", "audio", "video", "document", "file", "image_url", "input_audio":
		kind := b.Type
		if media := b.MimeType + b.Source.MediaType; media != "" {
			kind += ", " + tools.Excerpt(media, 80)
		}
		return contentBlock{raw: raw, text: fmt.Sprintf("[%s, %d bytes of JSON]", kind, len(raw)), media: true}
	}
	return contentBlock{raw: raw, text: string(raw)}
}

// blocksText returns blocks as plain text.
func blocksText(blocks []contentBlock) string {
	texts := make([]string, len(blocks))
	for i, b := range blocks {
		texts[i] = b.text
	}
	return strings.Join(texts, "\n")
}

// keepMedia returns the reference as a block, and the media that fit into left
// bytes of JSON. A note in the reference names media that do not fit. If no media
// remain, the blocks are nil.
func keepMedia(blocks []contentBlock, reference string, left int) (json.RawMessage, string) {
	var kept []any
	var dropped []string
	left -= jsonLen(reference) + 64
	for _, b := range blocks {
		switch n := len(b.raw) + 1; {
		case !b.media:
		case n <= left:
			kept = append(kept, b.raw)
			left -= n
		default:
			dropped = append(dropped, b.text)
		}
	}
	if len(dropped) > 0 {
		reference += fmt.Sprintf("\nNot shown, but in the artifact: %s", tools.Excerpt(strings.Join(dropped, " "), 400))
	}
	if kept == nil {
		return nil, reference
	}
	all, err := jsonform.Encode(append([]any{map[string]string{"type": "text", "text": reference}}, kept...))
	if err != nil { // impossible: the blocks were parsed
		return nil, reference
	}
	return all, reference
}
