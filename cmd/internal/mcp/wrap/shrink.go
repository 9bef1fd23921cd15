package wrap

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/artifacts"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// shrinker stores the big parts of results and replaces them.
type shrinker struct {
	cfg       Config
	limit     int64 // characters; longer texts are stored
	noURI     bool  // the client may have no way to read a resource
	client    string
	offloader *offload.Offloader
}

func newShrinker(cfg Config) *shrinker {
	tokens := cmp.Or(cfg.Offload.Threshold, 8000)
	limit := max(cmp.Or(cfg.Offload.InlineChars, 40_000), tokens*5/2)
	always := cfg.Offload
	always.Threshold, always.InlineChars = 1, 1
	if always.Budget > 0 {
		always.Budget = max(always.Budget, int(limit))
	}
	return &shrinker{cfg: cfg, limit: limit, offloader: offload.NewOffloader(cfg.Store, always)}
}

// stored is an artifact and the reference that replaces it.
type stored struct {
	artifact  *tools.Artifact // nil if it could not be stored
	reference string
}

// store stores a text or a file as an artifact of a tool.
func (s *shrinker) store(ctx context.Context, tool, text string) (stored, error) {
	id := artifacts.NewID(tool)
	if s.cfg.ContentIDs {
		digest := sha256.Sum256([]byte(text))
		id = id[:strings.LastIndexByte(id, '_')+1] + hex.EncodeToString(digest[:8])
	}
	return s.storeAs(ctx, id, tool, text)
}

func (s *shrinker) storeAs(ctx context.Context, id, tool, text string) (stored, error) {
	out := tools.NewOutput(tools.OutputLimits{Memory: wire.MaxMessage})
	defer out.Close()
	if _, err := io.WriteString(out, text); err != nil {
		return stored{}, err
	}
	call := tools.Call{ID: id, Session: s.cfg.Session, Tool: tool, AgentID: s.client}
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
		reference = fmt.Sprintf("The result is a file of %d bytes of %s, which is not text. It is stored as the artifact '%s'", a.Size, a.MediaType, a.ID)
		if s.noURI {
			reference += "."
		} else {
			reference += fmt.Sprintf("; resources/read of %s returns its bytes in pages.", artifacts.URI(s.cfg.session, a.ID))
		}
	}
	return stored{got.Artifact, reference}, nil
}

// block is the big part of a content block, of a resource or of a message of a prompt.
type block struct {
	index int    // of what contains it
	text  string // the text, or the bytes of a file
	file  bool
	size  int64 // of the text in characters; of a file in base64
}

// blockOf returns the text or the file of a content block. Images and sounds stay as they
// are.
func blockOf(index int, raw json.RawMessage) (block, bool) {
	switch kind, _ := wire.Text(wire.Get(raw, "type")); kind {
	case "text":
		text, ok := wire.Text(wire.Get(raw, "text"))
		return newBlock(index, text), ok
	case "resource":
		return resourceOf(index, wire.Get(raw, "resource"))
	}
	return block{}, false
}

// resourceOf returns the text or the file of a resource. A file that is not base64 is
// the text that it is.
func resourceOf(index int, raw json.RawMessage) (block, bool) {
	if text, ok := wire.Text(wire.Get(raw, "text")); ok {
		return newBlock(index, text), true
	}
	text, ok := wire.Text(wire.Get(raw, "blob"))
	if data, err := base64.StdEncoding.DecodeString(text); err == nil && ok {
		return block{index: index, text: string(data), file: true, size: int64(len(text))}, true
	}
	return newBlock(index, text), ok
}

func newBlock(index int, text string) block {
	return block{index: index, text: text, size: int64(utf8.RuneCountInString(text))}
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
	for _, b := range slices.SortedStableFunc(slices.Values(blocks), func(a, b block) int { return cmp.Compare(b.size, a.size) }) {
		if total <= s.limit/4 {
			break
		}
		chosen = append(chosen, b)
		total -= b.size
	}
	return chosen, len(chosen) > 3 && !slices.ContainsFunc(chosen, func(b block) bool { return b.file })
}

// resource replaces the big contents of resources/read. It returns nil if there are none. rename
// puts the client's names of the reading tools into a reference.
func (s *shrinker) resource(ctx context.Context, result json.RawMessage, uri string, rename func(string) string) (json.RawMessage, error) {
	return s.elements(ctx, result, "contents", "resource", resourceOf, func(raw json.RawMessage, got stored) json.RawMessage {
		own, _ := wire.Text(wire.Get(raw, "uri"))
		content := mcp.ResourceContents{URI: cmp.Or(own, uri), MIMEType: "text/plain", Text: rename(got.reference)}
		if got.artifact != nil {
			content.Meta = mcp.Meta{"stevedore/artifact": got.artifact, "stevedore/uri": artifacts.URI(s.cfg.session, got.artifact.ID)}
		}
		return wire.JSON(content)
	})
}

// prompt replaces the big texts of prompts/get. It returns nil if there are none.
func (s *shrinker) prompt(ctx context.Context, result json.RawMessage, rename func(string) string) (json.RawMessage, error) {
	content := func(i int, raw json.RawMessage) (block, bool) { return blockOf(i, wire.Get(raw, "content")) }
	return s.elements(ctx, result, "messages", "prompt", content, func(raw json.RawMessage, got stored) json.RawMessage {
		return wire.Set(raw, wire.JSON(textBlock(rename(got.reference))), "content")
	})
}

// elements replaces the big elements of a list in a result by what show returns.
func (s *shrinker) elements(ctx context.Context, result json.RawMessage, list, tool string, blockOf func(int, json.RawMessage) (block, bool),
	show func(json.RawMessage, stored) json.RawMessage) (json.RawMessage, error) {
	elements := slices.Collect(wire.Elements(wire.Get(result, list)))
	chosen, _ := s.choose(blocksOf(elements, blockOf))
	if chosen == nil {
		return nil, nil
	}
	for _, b := range chosen {
		got, err := s.store(ctx, tool, b.text)
		if err != nil {
			return nil, err
		}
		elements[b.index] = show(elements[b.index], got)
	}
	return wire.Set(result, wire.Array(elements), list), nil
}

// blocksOf returns the blocks of the elements that have one.
func blocksOf(elements []json.RawMessage, blockOf func(int, json.RawMessage) (block, bool)) (blocks []block) {
	for i, raw := range elements {
		if b, ok := blockOf(i, raw); ok {
			blocks = append(blocks, b)
		}
	}
	return blocks
}
