package wrap

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/mcp/artifacts"
	"github.com/stevedore-bus/stevedore/tools/mcp/wire"
)

// shrinkCall replaces the big parts of a tool's result at v.
func (p *proxy) shrinkCall(ctx context.Context, conn *connection, r *request, m *wire.Message, v wire.Value) error {
	members, err := m.Members(v, 1000)
	if err != nil {
		return err
	}
	c := &callShrinker{shrinker: p.shrinker, proxy: p, m: m, tool: r.tool, at: v,
		content: wire.Find(members, "content"), structured: wire.Find(members, "structuredContent")}
	if err := c.readBlocks(); err != nil {
		return err
	}
	if err := c.shrinkStructured(ctx, func() json.RawMessage { return p.outputSchema(ctx, conn, r.tool) }); err != nil {
		return err
	}
	return c.shrinkContent(ctx)
}

// callShrinker shrinks one result of a tool.
type callShrinker struct {
	*shrinker
	proxy      *proxy
	m          *wire.Message
	tool       string
	at         wire.Value // the result
	content    wire.Value
	structured wire.Value
	elements   []wire.Value // of content
	blocks     []block      // those of the elements that have a text or a file

	whole    *stored           // the stored structured content
	digest   []byte            // of the structured content
	texts    map[string]stored // stored strings of the structured content, by digest
	replaced bool              // the whole result was replaced
}

// maxBlocks is the most content blocks of a result. More of them become one artifact
// of JSON.
const maxBlocks = 10_000

func (c *callShrinker) readBlocks() (err error) {
	if c.content.Kind != '[' {
		return nil
	}
	scan := c.m.Elements(c.content, func(v wire.Value) bool {
		c.elements = append(c.elements, v)
		if v.Kind != '{' || len(c.elements) > maxBlocks {
			return len(c.elements) <= maxBlocks
		}
		b, ok, found := blockOf(c.m, v)
		if err = found; err == nil && ok {
			if err = c.measure(c.m, &b); err == nil {
				c.blocks = append(c.blocks, b)
			}
		}
		return err == nil
	})
	return errors.Join(err, scan)
}

// show returns the blocks that replace an artifact: the reference, and a link if the
// client knows links.
func (c *callShrinker) show(s stored) []any {
	values := []any{textBlock{"text", artifacts.Rename(s.reference, c.proxy.rename)}}
	if s.artifact != nil && c.proxy.links() {
		values = append(values, artifacts.LinkTo(c.cfg.Session, *s.artifact))
	}
	return values
}

// shrinkContent replaces the big content blocks.
func (c *callShrinker) shrinkContent(ctx context.Context) error {
	if c.replaced {
		return nil
	}
	if len(c.elements) > maxBlocks {
		got, err := c.store(ctx, c.tool, c.m.Reader(c.content))
		if err != nil {
			return err
		}
		return c.replaceContent(c.show(got))
	}
	chosen, join := c.choose(c.blocks)
	shown := false // the artifacts of the structured content
	if join {
		got, err := c.store(ctx, c.tool, c.joined())
		if err != nil {
			return err
		}
		c.removeAllBut(c.blocks[0])
		return replace(c.m, c.blocks[0].at, c.show(got)...)
	}
	for _, b := range chosen {
		got, ok, err := c.known(b)
		if err == nil && !ok {
			got, err = c.storeBlock(ctx, c.tool, c.m, b)
		}
		if err == nil {
			err = replace(c.m, b.at, c.show(got)...)
		}
		if err != nil {
			return err
		}
		shown = shown || ok
	}
	var missing []any
	if c.whole != nil && !shown {
		missing = c.show(*c.whole)
	}
	if !shown {
		for _, digest := range slices.Sorted(maps.Keys(c.texts)) {
			missing = append(missing, c.show(c.texts[digest])...)
		}
	}
	if missing == nil {
		return nil
	}
	return c.appendContent(missing)
}

// known returns the artifact of the structured content, or of one of its strings, if a
// block repeats it.
func (c *callShrinker) known(b block) (stored, bool, error) {
	if b.blob {
		return stored{}, false, nil
	}
	if c.whole != nil {
		digest, err := compactDigest(c.m.Strings(b.text))
		return *c.whole, bytes.Equal(digest, c.digest), err
	}
	if c.texts == nil {
		return stored{}, false, nil
	}
	digest, err := textDigest(c.m.Strings(b.text))
	got, ok := c.texts[digest]
	return got, ok, err
}

// joined returns the texts of all blocks, with line breaks between them.
func (c *callShrinker) joined() io.Reader {
	var parts []io.Reader
	for i, b := range c.blocks {
		if i > 0 {
			parts = append(parts, strings.NewReader("\n"))
		}
		parts = append(parts, c.reader(c.m, b))
	}
	return io.MultiReader(parts...)
}

// removeAllBut removes the blocks with text, except first, with the comma before each.
func (c *callShrinker) removeAllBut(first block) {
	text := map[int64]bool{}
	for _, b := range c.blocks {
		text[b.at.Start] = b.at.Start != first.at.Start
	}
	for i, v := range c.elements {
		if !text[v.Start] {
			continue
		}
		// first is the first block with text, so it is an element before this one.
		c.m.Edits = append(c.m.Edits, wire.Edit{From: c.elements[i-1].End, To: v.End})
	}
}

// appendContent adds blocks to the end of the content.
func (c *callShrinker) appendContent(values []any) error {
	if c.content.Kind != '[' {
		return c.replaceContent(values)
	}
	at := c.content.End - 1
	if err := replace(c.m, wire.Value{Start: at, End: at}, values...); err != nil {
		return err
	}
	if len(c.elements) > 0 {
		last := &c.m.Edits[len(c.m.Edits)-1]
		last.With = append([]byte{','}, last.With...)
	}
	return nil
}

// replaceContent replaces all blocks.
func (c *callShrinker) replaceContent(values []any) error {
	if c.content.Exists() {
		return replace(c.m, c.content, values)
	}
	at := c.at.Start + 1
	if err := replace(c.m, wire.Value{Start: at, End: at}, values); err != nil {
		return err
	}
	last := &c.m.Edits[len(c.m.Edits)-1]
	last.With = append(append([]byte(`"content":`), last.With...), ',')
	return nil
}

// shrinkStructured stores a big structured content and replaces it by a short one that
// the schema accepts.
func (c *callShrinker) shrinkStructured(ctx context.Context, schema func() json.RawMessage) error {
	if c.structured.Kind != '{' || c.structured.Len() <= c.limit {
		return nil
	}
	n, err := runes(c.m.Reader(c.structured))
	if err != nil || n <= c.limit {
		return err
	}
	rawSchema := schema()
	if ok, err := c.shrinkStrings(ctx, rawSchema, n); ok || err != nil {
		return err
	}
	if c.digest, err = compactDigest(c.m.Reader(c.structured)); err != nil {
		return err
	}
	got, err := c.store(ctx, c.tool, c.m.Reader(c.structured))
	if err != nil {
		return err
	}
	c.whole = &got
	if got.artifact == nil {
		return c.replaceResult(got, "")
	}
	notice := fmt.Sprintf("[Shortened: the whole structured result has %d characters and is the artifact '%s'. Read what you need of it with jq_knowledge, grep_knowledge or get_knowledge_by_id.]", got.artifact.Chars, got.artifact.ID)
	short, ok := shorten(c.m, c.structured, rawSchema, artifacts.Rename(notice, c.proxy.rename))
	if !ok {
		return c.replaceResult(got, "The tool succeeded. Its structured result is too large to be shown, and its schema allows no shorter one, so this answer is marked as an error for programs.\n")
	}
	c.m.Edits = append(c.m.Edits, wire.Edit{From: c.structured.Start, To: c.structured.End, With: short})
	return nil
}

// shrinkStrings replaces the big strings of a structured content of n characters by
// references, if the rest is small. Many servers return one text in two forms: as a
// text block, and as the only string of an object.
func (c *callShrinker) shrinkStrings(ctx context.Context, rawSchema json.RawMessage, n int64) (bool, error) {
	members, err := c.m.Members(c.structured, 100)
	if err != nil {
		return false, nil // an object with so many members has no single big one
	}
	var big []wire.Value
	for _, m := range members {
		if m.Value.Kind != '"' || m.Value.Len() <= c.limit {
			continue
		}
		chars, err := runes(c.m.Reader(m.Value))
		if err != nil {
			return false, err
		}
		if chars > c.limit {
			big = append(big, m.Value)
			n -= chars
		}
	}
	if len(big) == 0 || n > c.limit {
		return false, nil
	}
	edits := len(c.m.Edits)
	texts := map[string]stored{}
	for _, v := range big {
		digest, err := textDigest(c.m.Strings(v))
		if err != nil {
			return false, err
		}
		got, err := c.store(ctx, c.tool, c.m.Strings(v))
		if err != nil {
			return false, err
		}
		texts[digest] = got
		if err := replace(c.m, v, artifacts.Rename(got.reference, c.proxy.rename)); err != nil {
			return false, err
		}
	}
	if short, err := c.edited(c.m.Edits[edits:]); err != nil || !validator(rawSchema)(short) {
		c.m.Edits = c.m.Edits[:edits]
		return false, err
	}
	c.texts = texts
	return true, nil
}

// edited returns the structured content after edits.
func (c *callShrinker) edited(edits []wire.Edit) ([]byte, error) {
	var out []byte
	from := c.structured.Start
	for _, e := range append(edits, wire.Edit{From: c.structured.End, To: c.structured.End}) {
		part, err := c.m.Bytes(wire.Value{Start: from, End: e.From}, 4*c.limit)
		if err != nil {
			return nil, err
		}
		out = append(append(out, part...), e.With...)
		from = e.To
	}
	return out, nil
}

func textDigest(src io.Reader) (string, error) {
	h := sha256.New()
	_, err := io.Copy(h, src)
	return string(h.Sum(nil)), err
}

// replaceResult replaces the whole result by an error with a reference: clients accept
// such a result without structured content.
func (c *callShrinker) replaceResult(s stored, note string) error {
	c.replaced = true
	s.reference = note + s.reference
	res := toolResult(&tools.Result{IsError: true})
	res.Content = c.show(s)
	return replace(c.m, c.at, res)
}

// compactDigest is a digest of JSON without the white space between its tokens. It
// tells whether a text block repeats the structured content.
func compactDigest(src io.Reader) ([]byte, error) {
	h := sha256.New()
	buf := make([]byte, 32<<10)
	quoted, escaped := false, false
	for {
		n, err := src.Read(buf)
		kept := buf[:0]
		for _, b := range buf[:n] {
			switch {
			case escaped:
				escaped = false
			case quoted && b == '\\':
				escaped = true
			case b == '"':
				quoted = !quoted
			case !quoted && (b == ' ' || b == '\n' || b == '\r' || b == '\t'):
				continue
			}
			kept = append(kept, b)
		}
		h.Write(kept)
		if errors.Is(err, io.EOF) {
			return h.Sum(nil), nil
		}
		if err != nil {
			return nil, err
		}
	}
}
