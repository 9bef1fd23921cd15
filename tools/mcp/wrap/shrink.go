package wrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/mcp/artifacts"
	"github.com/stevedore-bus/stevedore/tools/mcp/wire"
)

// shrinker stores the big parts of results and replaces them.
type shrinker struct {
	cfg       Config
	limit     int64 // characters; longer texts are stored
	offloader *offload.Offloader
}

// stored is an artifact and the reference that replaces it.
type stored struct {
	artifact  *tools.Artifact // nil if it could not be stored
	reference string
}

// store stores what src returns as an artifact of a tool.
func (s *shrinker) store(ctx context.Context, tool string, src io.Reader) (stored, error) {
	out := tools.NewOutput(tools.OutputLimits{})
	defer out.Close()
	if _, err := io.Copy(out, src); err != nil {
		return stored{}, err
	}
	call := tools.Call{ID: artifacts.NewID(tool), Session: s.cfg.Session, Tool: tool}
	res := &tools.Result{Output: out}
	got, err := s.offloader.Result(ctx, call, tools.Definition{}, res)
	if err != nil && ctx.Err() == nil {
		got, err = s.offloader.Result(ctx, call, tools.Definition{}, res)
	}
	if err != nil {
		s.cfg.Log.Error().Str("tool", tools.Excerpt(tool, 64)).Err(err).Msg("cannot store a result")
		return stored{reference: s.offloader.Fallback(call, res, err).ForLLM}, nil
	}
	reference := got.ForLLM
	if a := got.Artifact; a != nil && a.Type == offload.TypeBinary {
		// The usual text names a tool that this client does not have.
		reference = fmt.Sprintf("The result is a file of %d bytes of %s, which is not text. It is stored as the artifact '%s'; resources/read of %s returns its bytes in pages.", a.Size, a.MediaType, a.ID, artifacts.URI(s.cfg.Session, a.ID))
	}
	return stored{got.Artifact, reference}, nil
}

// block is a content block with text, or with a file in base64.
type block struct {
	at   wire.Value // the block
	text wire.Value // its text, or its file
	size int64      // of the text in characters; of a file in base64
	blob bool
}

// blockOf returns the big part of a content block, if it has one: the text of a text
// block or of an embedded resource, or the file of an embedded resource. Images and
// sounds stay as they are.
func blockOf(m *wire.Message, at wire.Value) (b block, ok bool, err error) {
	members, err := m.Members(at, 1000)
	if err != nil {
		return b, false, err
	}
	kind := wire.Find(members, "type")
	if kind.Kind != '"' || kind.Len() > 100 {
		return b, false, nil
	}
	name, err := m.Text(kind, 100)
	if err != nil {
		return b, false, err
	}
	b.at = at
	switch name {
	case "text":
		b.text = wire.Find(members, "text")
	case "resource":
		resource := wire.Find(members, "resource")
		if resource.Kind != '{' {
			return b, false, nil
		}
		if b, err = resourceOf(m, resource); err != nil {
			return b, false, err
		}
		b.at = at
	}
	return b, b.text.Kind == '"', nil
}

// resourceOf returns the text or the file of a resource.
func resourceOf(m *wire.Message, at wire.Value) (b block, err error) {
	members, err := m.Members(at, 1000)
	if err != nil {
		return b, err
	}
	b.at = at
	if b.text = wire.Find(members, "text"); !b.text.Exists() {
		b.text, b.blob = wire.Find(members, "blob"), true
	}
	return b, nil
}

// measure sets the size, exactly only if it may be above the limit.
func (s *shrinker) measure(m *wire.Message, b *block) error {
	b.size = b.text.Len()
	if b.blob || b.size <= s.limit/4 {
		return nil
	}
	n, err := runes(m.Strings(b.text))
	b.size = n
	return err
}

// runes counts the characters of a text.
func runes(src io.Reader) (n int64, err error) {
	buf := make([]byte, 32<<10)
	for {
		k, err := src.Read(buf)
		for _, c := range buf[:k] {
			if utf8.RuneStart(c) {
				n++
			}
		}
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

func (s *shrinker) reader(m *wire.Message, b block) io.Reader {
	if b.blob {
		return m.Base64(b.text)
	}
	return m.Strings(b.text)
}

// storeBlock stores a block. A file that is not base64 is stored as the text that it is.
func (s *shrinker) storeBlock(ctx context.Context, tool string, m *wire.Message, b block) (stored, error) {
	got, err := s.store(ctx, tool, s.reader(m, b))
	if err != nil && b.blob && ctx.Err() == nil {
		return s.store(ctx, tool, m.Strings(b.text))
	}
	return got, err
}

// choose returns the blocks to replace one by one, so that the rest is small. If that
// would be too many, join is set: all become one artifact.
func (s *shrinker) choose(blocks []block) (chosen []block, join bool) {
	total := int64(0)
	for _, b := range blocks {
		total += b.size
	}
	if total <= s.limit {
		return nil, false
	}
	bySize := slices.Clone(blocks)
	slices.SortStableFunc(bySize, func(a, b block) int { return int(min(max(b.size-a.size, -1), 1)) })
	for _, b := range bySize {
		if total <= s.limit/4 {
			break
		}
		chosen = append(chosen, b)
		total -= b.size
	}
	return chosen, len(chosen) > 3 && !slices.ContainsFunc(chosen, func(b block) bool { return b.blob })
}

// resource replaces the big contents of resources/read.
func (s *shrinker) resource(ctx context.Context, m *wire.Message, uri string) error {
	contents, err := m.Get(m.Result, "contents")
	if err != nil || contents.Kind != '[' {
		return err
	}
	var blocks []block
	scan := m.Elements(contents, func(v wire.Value) bool {
		var b block
		if b, err = resourceOf(m, v); err == nil && b.text.Kind == '"' {
			if err = s.measure(m, &b); err == nil {
				blocks = append(blocks, b)
			}
		}
		return err == nil
	})
	if err := errors.Join(err, scan); err != nil {
		return err
	}
	chosen, _ := s.choose(blocks)
	for _, b := range chosen {
		got, err := s.storeBlock(ctx, "resource", m, b)
		if err != nil {
			return err
		}
		var kept struct {
			URI string `json:"uri"`
		}
		if own, err := m.Get(b.at, "uri"); err == nil && own.Kind == '"' {
			kept.URI, _ = m.Text(own, 64<<10)
		}
		if kept.URI == "" {
			kept.URI = uri
		}
		content := artifacts.Content{URI: kept.URI, MIMEType: "text/plain", Text: &got.reference}
		if got.artifact != nil {
			content.Meta = map[string]any{"stevedore/artifact": got.artifact, "stevedore/uri": artifacts.URI(s.cfg.Session, got.artifact.ID)}
		}
		if err := replace(m, b.at, content); err != nil {
			return err
		}
	}
	return nil
}

// prompt replaces the big texts of prompts/get.
func (s *shrinker) prompt(ctx context.Context, m *wire.Message) error {
	messages, err := m.Get(m.Result, "messages")
	if err != nil || messages.Kind != '[' {
		return err
	}
	var blocks []block
	scan := m.Elements(messages, func(v wire.Value) bool {
		var content wire.Value
		if content, err = m.Get(v, "content"); err != nil || content.Kind != '{' {
			return err == nil
		}
		b, ok, found := blockOf(m, content)
		if err = found; err == nil && ok {
			if err = s.measure(m, &b); err == nil {
				blocks = append(blocks, b)
			}
		}
		return err == nil
	})
	if err := errors.Join(err, scan); err != nil {
		return err
	}
	chosen, _ := s.choose(blocks)
	for _, b := range chosen {
		got, err := s.storeBlock(ctx, "prompt", m, b)
		if err == nil {
			err = replace(m, b.at, textBlock{"text", got.reference})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// replace replaces a value by JSON values, with commas between them.
func replace(m *wire.Message, at wire.Value, values ...any) error {
	var with []byte
	for i, v := range values {
		data, err := wire.Encode(v)
		if err != nil {
			return err
		}
		if i > 0 {
			with = append(with, ',')
		}
		with = append(with, data...)
	}
	m.Edits = append(m.Edits, wire.Edit{From: at.Start, To: at.End, With: with})
	return nil
}
