package wrap

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/artifacts"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// shortenedMeta is a field of the _meta of a result whose structured content is not
// complete. It says how to read the whole one.
const shortenedMeta = "stevedore/shortened"

// callShrinker shrinks one result of a tool.
type callShrinker struct {
	*shrinker
	proxy *proxy
	r     *request
	texts []storedText
}

// storedText is a stored part of the structured content. Text blocks often repeat it.
type storedText struct {
	text string // of the whole content, without white space
	stored
}

// shrinkCall returns the result of a tool without its big parts; nil if it has none.
func (p *proxy) shrinkCall(ctx context.Context, conn *connection, r *request, result json.RawMessage) (json.RawMessage, error) {
	c := &callShrinker{shrinker: p.hosted.Load().shrinker, proxy: p, r: r}
	if r.overBudget {
		smaller := *c.shrinker
		smaller.limit = offload.MinBudgeted
		c.shrinker = &smaller
	}
	o := wire.ObjectOf(result)
	if structured := o.Get("structuredContent"); int64(utf8.RuneCount(structured)) > c.limit {
		short, notice, err := c.shrinkStructured(ctx, structured, p.outputSchema(ctx, conn, r.tool))
		if err != nil {
			return nil, err
		}
		if short == nil {
			o = c.failed(o)
		} else if o = o.With("structuredContent", short); notice != "" {
			o = o.With("_meta", wire.Set(o.Get("_meta"), wire.JSON(notice), shortenedMeta))
		}
	}
	content, err := c.shrinkContent(ctx, slices.Collect(wire.Elements(o.Get("content"))))
	if err != nil || content == nil {
		return nil, err
	}
	return o.With("content", wire.Array(content)).Text(), nil
}

// show returns the blocks that replace an artifact: the reference, and a link if the
// client knows links.
func (c *callShrinker) show(s stored) []json.RawMessage {
	blocks := []json.RawMessage{wire.JSON(textBlock(c.proxy.text(s.reference)))}
	if s.artifact != nil && c.proxy.links() {
		blocks = append(blocks, wire.JSON(artifacts.LinkTo(c.cfg.session, *s.artifact)))
	}
	return blocks
}

// failed is the result if no short form of the structured content fits its schema: clients
// accept an error without structured content.
func (c *callShrinker) failed(o wire.Object) wire.Object {
	if whole := &c.texts[0].stored; whole.artifact != nil && string(o.Get("isError")) != "true" {
		whole.reference = "The tool succeeded. Its structured result is too large to be shown, and its schema allows no shorter one, so " +
			"this answer is marked as an error for programs.\n" + whole.reference
	}
	o = slices.DeleteFunc(o, func(m wire.Member) bool { return m.Name == "structuredContent" })
	return o.With("isError", json.RawMessage("true"))
}

// shrinkContent replaces the big content blocks. It returns nil if nothing changes.
func (c *callShrinker) shrinkContent(ctx context.Context, content []json.RawMessage) ([]json.RawMessage, error) {
	content, scaled := c.scalePictures(ctx, content)
	blocks := blocksOf(content, blockOf)
	chosen, join := c.choose(blocks)
	switch {
	case chosen == nil && c.texts == nil && scaled:
		return content, nil
	case chosen == nil && c.texts == nil:
		return nil, nil
	}
	replaced := map[int][]json.RawMessage{} // what replaces a block
	if join {
		blocks = slices.DeleteFunc(blocks, func(b block) bool { return b.file }) // a short file stays
		var texts []string
		for _, b := range blocks {
			texts = append(texts, b.text)
			replaced[b.index] = nil
		}
		got, err := c.store(ctx, c.r.tool, strings.Join(texts, "\n"))
		if err != nil {
			return nil, err
		}
		replaced[blocks[0].index], chosen = c.show(got), nil
	}
	shown := false // the artifacts of the structured content
	for _, b := range chosen {
		got, known := c.known(b)
		if !known {
			var err error
			if got, err = c.store(ctx, c.r.tool, b.text); err != nil {
				return nil, err
			}
		}
		replaced[b.index] = c.show(got)
		shown = shown || known
	}
	var out []json.RawMessage
	for i, raw := range content {
		if short, ok := replaced[i]; ok {
			out = append(out, short...)
		} else {
			out = append(out, raw)
		}
	}
	if !shown {
		for _, t := range c.texts {
			out = append(out, c.show(t.stored)...)
		}
	}
	return out, nil
}

// scalePictures replaces the pictures that are larger than models take. Their originals are
// artifacts, as the texts before them say. A picture whose original cannot be stored stays.
func (c *callShrinker) scalePictures(ctx context.Context, content []json.RawMessage) (out []json.RawMessage, scaled bool) {
	left := offload.MaxPixels
	for i, raw := range content {
		img, text, err := c.offloader.ScalePicture(ctx, tools.Call{ID: artifacts.NewID(c.r.tool), Session: c.cfg.Session, Tool: c.r.tool,
			AgentID: c.client}, i, raw, &left)
		switch {
		case err != nil:
			c.cfg.Log.Error().Str("tool", tools.Excerpt(c.r.tool, 64)).Err(err).Msg("cannot store a picture")
		case img != nil:
			out, scaled = append(out, wire.JSON(textBlock(text))), true
			raw = wire.Set(wire.Set(raw, wire.JSON(img.Data), "data"), wire.JSON(img.MediaType), "mimeType")
		}
		out = append(out, raw)
	}
	return out, scaled
}

// known returns the artifact of a part of the structured content that a block repeats.
func (c *callShrinker) known(b block) (stored, bool) {
	var compact bytes.Buffer
	isJSON := len(c.texts) > 0 && json.Compact(&compact, []byte(b.text)) == nil
	for _, t := range c.texts {
		if b.text == t.text || isJSON && compact.String() == t.text {
			return t.stored, true
		}
	}
	return stored{}, false
}

// shrinkStructured stores a big structured content and returns a short one that the schema
// accepts; nil if there is none. If the short one is a part of the whole one, the notice
// says so.
func (c *callShrinker) shrinkStructured(ctx context.Context, structured, schema json.RawMessage) (short json.RawMessage, notice string, err error) {
	accepts := validator(schema)
	if short, err := c.shrinkStrings(ctx, structured, accepts); short != nil || err != nil {
		return short, "", err
	}
	got, err := c.store(ctx, c.r.tool, string(structured))
	if err != nil {
		return nil, "", err
	}
	var compact bytes.Buffer
	_ = json.Compact(&compact, structured) // it is valid
	c.texts = []storedText{{compact.String(), got}}
	if got.artifact == nil {
		return nil, "", nil
	}
	notice = c.proxy.text(fmt.Sprintf("[Shortened: the whole structured result has %d characters and is the artifact '%s'. Read what "+
		"you need of it with jq_knowledge(artifact_id, query), grep_knowledge(artifact_id, pattern) or get_knowledge_by_id(artifact_id, "+
		"offset).]", got.artifact.Chars, got.artifact.ID))
	return shorten(structured, notice, accepts), notice, nil
}

// shrinkStrings replaces the big strings of a structured content by references, if the
// rest is small and the schema accepts it. Many servers return one text in two forms: as a
// text block, and as the only string of an object.
func (c *callShrinker) shrinkStrings(ctx context.Context, structured json.RawMessage, accepts func(json.RawMessage) bool) (json.RawMessage, error) {
	o := wire.ObjectOf(structured)
	var big []int
	rest := int64(utf8.RuneCount(structured))
	for i, m := range o {
		if n := int64(utf8.RuneCount(m.Value)); wire.Kind(m.Value) == '"' && n > c.limit {
			big, rest = append(big, i), rest-n
		}
	}
	if big == nil || rest > c.limit {
		return nil, nil
	}
	var texts []storedText
	for _, i := range big {
		text, _ := wire.Text(o[i].Value)
		got, err := c.store(ctx, c.r.tool, text)
		if err != nil {
			return nil, err
		}
		texts = append(texts, storedText{text, got})
		o[i].Value = wire.JSON(c.proxy.text(got.reference))
	}
	if short := o.Text(); accepts(short) {
		c.texts = texts
		return short, nil
	}
	return nil, nil
}
