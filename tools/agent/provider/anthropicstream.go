package provider

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/jsonform"
)

// anthropicTurn collects the events of https://docs.anthropic.com/en/api/streaming.
// Some servers that imitate the API omit the start of a message or of a block; their
// answers count too.
type anthropicTurn struct {
	key     string // to remove from errors
	text    textReporter
	started bool
	stopped bool // message_stop arrived
	model   string
	stop    agent.StopReason
	usage   anthropicUsage
	blocks  []*streamedBlock
	byIndex map[int]*streamedBlock
}

// anthropicEvent has the fields of all events, and of an answer in one piece.
type anthropicEvent struct {
	Type    string `json:"type"`
	Index   int    `json:"index"`
	Message struct {
		Model string          `json:"model"`
		Usage json.RawMessage `json:"usage"`
	} `json:"message"`
	Block json.RawMessage            `json:"content_block"`
	Delta map[string]json.RawMessage `json:"delta"`
	Usage json.RawMessage            `json:"usage"`
	Error json.RawMessage            `json:"error"`
	// Of an answer in one piece.
	Model      string            `json:"model"`
	Content    []json.RawMessage `json:"content"`
	StopReason agent.StopReason  `json:"stop_reason"`
}

// streamedBlock is a content block that grows.
type streamedBlock struct {
	raw     json.RawMessage // as it started
	fields  map[string]json.RawMessage
	pieces  map[string]*bytes.Buffer // of the string fields that deltas extend
	input   bytes.Buffer             // JSON
	changed bool
}

func (t *anthropicTurn) add(event sseEvent, header http.Header) (counts bool, err error) {
	var e anthropicEvent
	if event.name == "ping" {
		return false, nil
	}
	if err := json.Unmarshal(event.data, &e); err != nil {
		return false, err
	}
	if isSet(e.Error) {
		return true, embeddedError(e.Error, header, t.key, t.started)
	}
	switch e.Type {
	case "ping":
		return false, nil
	case "message_start":
		t.model = e.Message.Model
		t.count(e.Message.Usage)
	case "content_block_start":
		err = t.startBlock(e.Index, e.Block)
	case "content_block_delta":
		err = t.extend(e.Index, e.Delta)
	case "content_block_stop":
	case "message_delta":
		_ = json.Unmarshal(e.Delta["stop_reason"], &t.stop)
		t.count(e.Usage)
	case "message_stop":
		t.stopped = true
	case "message":
		t.model, t.stop, t.stopped = e.Model, e.StopReason, true
		t.count(e.Usage)
		for i := 0; i < len(e.Content) && err == nil; i++ {
			err = t.startBlock(i, e.Content[i])
		}
	default:
		return false, nil // the API may add types
	}
	if err != nil {
		return false, err
	}
	if len(t.blocks) > maxBlocks {
		return false, badAnswer("it has more than %d blocks", maxBlocks)
	}
	t.started = true
	return true, nil
}

// count updates the usage: each event has the totals that it knows.
func (t *anthropicTurn) count(usage json.RawMessage) { _ = json.Unmarshal(usage, &t.usage) }

func (t *anthropicTurn) startBlock(index int, raw json.RawMessage) error {
	b := &streamedBlock{raw: raw, fields: map[string]json.RawMessage{}, pieces: map[string]*bytes.Buffer{}}
	if err := json.Unmarshal(raw, &b.fields); err != nil || b.fields == nil {
		return cmp.Or(err, errors.New("a block is null"))
	}
	t.blocks, t.byIndex[index] = append(t.blocks, b), b
	t.reportText(b, b.string("text"))
	return nil
}

// maxBlocks is the maximum number of blocks or tool calls of a turn.
const maxBlocks = 10_000

// extend adds a delta to a block. Deltas of unknown types are ignored.
func (t *anthropicTurn) extend(index int, delta map[string]json.RawMessage) error {
	kind := stringOf(delta["type"])
	b := t.byIndex[index]
	if b == nil {
		start := `{"type":"text","text":""}`
		if kind != "text_delta" { // of a block that nobody can use
			start = `{"type":"unknown"}`
		}
		if err := t.startBlock(index, json.RawMessage(start)); err != nil {
			return err
		}
		b = t.byIndex[index]
	}
	switch kind {
	case "text_delta":
		text := stringOf(delta["text"])
		t.reportText(b, text)
		b.extend("text", text)
	case "thinking_delta":
		b.extend("thinking", stringOf(delta["thinking"]))
	case "signature_delta":
		b.extend("signature", stringOf(delta["signature"]))
	case "input_json_delta":
		b.changed = true
		b.input.WriteString(stringOf(delta["partial_json"]))
	case "citations_delta":
		return b.cite(delta["citation"])
	}
	return nil
}

// reportText reports a piece of text. Texts of different blocks are lines of their own,
// as in agent.TextOf.
func (t *anthropicTurn) reportText(b *streamedBlock, text string) {
	if text == "" {
		return
	}
	if t.text.chars > 0 && b.string("text") == "" && b.pieces["text"] == nil {
		text = "\n" + text
	}
	t.text.report(text)
}

func (b *streamedBlock) string(field string) string { return stringOf(b.fields[field]) }

func (b *streamedBlock) extend(field, text string) {
	if text == "" {
		return
	}
	if b.pieces[field] == nil {
		b.pieces[field] = bytes.NewBufferString(b.string(field))
	}
	b.pieces[field].WriteString(text)
	b.changed = true
}

func (b *streamedBlock) cite(citation json.RawMessage) error {
	var all []json.RawMessage
	if isSet(b.fields["citations"]) {
		if err := json.Unmarshal(b.fields["citations"], &all); err != nil {
			return err
		}
	}
	b.fields["citations"], _ = jsonform.Encode(append(all, citation)) // what was decoded does not fail
	b.changed = true
	return nil
}

// block returns the complete block.
func (b *streamedBlock) block() (block agent.Block, err error) {
	raw := b.raw
	if b.changed {
		for field, text := range b.pieces {
			b.fields[field], _ = jsonform.Encode(text.String()) // texts do not fail
		}
		if b.input.Len() > 0 {
			b.fields["input"] = toolInput(b.input.String())
		}
		raw, _ = jsonform.Encode(b.fields) // nor does what was decoded
	}
	return block, block.UnmarshalJSON(raw)
}

func (t *anthropicTurn) ended() bool { return t.stopped }

func (t *anthropicTurn) response() (res agent.Response, complete, started bool) {
	res = agent.Response{StopReason: t.stop, Model: t.model, Usage: t.usage.usage()}
	for _, b := range t.blocks {
		block, err := b.block()
		if err != nil {
			return res, false, t.started
		}
		if block.Type != "unknown" && (block.Type != agent.TypeText || block.Text != "") { // the API rejects empty texts
			res.Content = append(res.Content, block)
		}
	}
	return res, t.started && (t.stopped || t.stop != ""), t.started
}

// malformed is the error of an event that cannot be decoded. A part of the turn is
// missing, so the turn must be requested again.
func malformed(event sseEvent, err error) *agent.ProviderError {
	failure := badAnswer("an event of the stream is malformed: %v: %s", err, cleanError(tools.Excerpt(string(event.data), 200), ""))
	failure.Retryable = true
	return failure
}

func stringOf(field json.RawMessage) (s string) {
	_ = json.Unmarshal(field, &s) // a field of another type is ignored
	return s
}
