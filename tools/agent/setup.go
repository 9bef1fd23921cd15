package agent

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/jsonform"
)

const (
	// maxSetup is how much of a log one Setup takes, in bytes, compressed. That of 30 tools has 6,000.
	maxSetup = 48 << 10
	// maxSetupText is how many bytes a Setup has when it is decompressed.
	maxSetupText = 4 << 20
)

// Setup is what the requests of a run contain beside the conversation. A log stores it when a run
// begins, and when another worker continues the run, if it is not the one that the log had before.
type Setup struct {
	System string      `json:"system,omitempty"`
	Tools  []SetupTool `json:"tools,omitempty"`
	// MaxTokens bounds a turn.
	MaxTokens int `json:"max_tokens"`
	// TooLarge: the rest is not stored.
	TooLarge bool `json:"too_large,omitempty"`
}

// SetupTool is a tool as the model sees it.
type SetupTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
}

// pack returns the setup as a log has it.
func (s Setup) pack() []byte {
	data, _ := jsonform.Encode(s) // texts do not fail, nor do schemas that were encoded
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed) // its errors are those of packed, which has none
	_, _ = w.Write(data)
	_ = w.Close()
	if !s.TooLarge && (packed.Len() > maxSetup || len(data) > maxSetupText) {
		return Setup{MaxTokens: s.MaxTokens, TooLarge: true}.pack()
	}
	return packed.Bytes()
}

// unpack returns the JSON of a packed setup; nil if there is none.
func unpack(packed []byte) ([]byte, error) {
	if packed == nil {
		return nil, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, maxSetupText))
}

// unpackSetup returns the setup that a log has; nil if it has none.
func unpackSetup(packed []byte) (s *Setup, err error) {
	data, err := unpack(packed)
	if data != nil && err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return nil, fmt.Errorf("decode what the requests of a run contain: %w", err)
	}
	return s, nil
}

// SetupTools returns tools as a model sees them.
func SetupTools(defs []tools.Definition) (list []SetupTool, err error) {
	for _, def := range defs {
		description, schema, err := forModels(def)
		if err != nil {
			return nil, fmt.Errorf("tool %s: %w", def.Name, err)
		}
		list = append(list, SetupTool{def.Name, description, schema})
	}
	return list, nil
}

// keepTools adds the tools that the model of the run has seen and that this worker lacks, such as those of an MCP server that starts: another
// worker may have them. What the log cannot tell stays as it is.
func (r *run) keepTools() {
	before, err := unpackSetup(r.conv.setup)
	if before == nil || err != nil {
		return
	}
	var kept []tools.Definition // in the same order, for the cache of the provider
	own, lacks := slices.Clone(r.cfg.Tools), false
	for _, t := range before.Tools {
		def := tools.Definition{Name: t.Name, Description: t.Description, Parameters: new(jsonschema.Schema)}
		if i := slices.IndexFunc(own, func(have tools.Definition) bool { return have.Name == t.Name }); i >= 0 {
			kept, own = append(kept, own[i]), slices.Delete(own, i, i+1)
		} else if json.Unmarshal(t.InputSchema, def.Parameters) == nil {
			kept, lacks = append(kept, def), true
		}
	}
	if lacks {
		a := *r.Agent // others may use it
		a.cfg.Tools, r.Agent = append(kept, own...), &a
	}
}

// appendClaim appends an entry that claims the session, with the setup of the run if it has changed.
func (r *run) appendClaim(ctx context.Context, e Entry) error {
	s := Setup{System: r.cfg.System, MaxTokens: r.cfg.MaxTokens}
	var err error
	if s.Tools, err = SetupTools(r.cfg.Tools); err != nil {
		return err
	}
	data, _ := jsonform.Encode(s)
	if before, _ := unpack(r.conv.setup); !bytes.Equal(before, data) { // to pack takes ten times as long; a broken one is replaced
		if packed := s.pack(); !bytes.Equal(packed, r.conv.setup) {
			e.Setup = packed
		}
	}
	err = r.append(ctx, e)
	if errors.Is(err, ErrTooLarge) && e.Setup != nil { // the prompt is more important
		e.Setup = Setup{MaxTokens: s.MaxTokens, TooLarge: true}.pack()
		err = r.append(ctx, e)
	}
	return err
}

// Turn is what the log has of one request to the model, and the answer.
type Turn struct {
	Messages []Message
	// Setup is nil if the log does not have it, because an earlier version wrote it.
	Setup *Setup
	// Late is how many notices at the end of the messages may have come after the request.
	Late int
	// Answer is the entry with the model's turn.
	Answer Entry
}

// TurnOf returns a turn of a run, counted from 1. ok is false if the log does not have it.
func TurnOf(entries []Entry, run string, number int) (t Turn, ok bool, err error) {
	c := newConversation()
	for i, e := range entries {
		if s := c.open; s != nil && s.id == run && s.turns == number-1 && e.Kind == KindAssistant && e.Message != nil {
			t = Turn{Messages: c.messages(), Answer: e}
			for before := i - 1; before >= 0 && entries[before].Kind == KindNotice; before-- {
				t.Late++
			}
			t.Setup, err = unpackSetup(c.setup)
			return t, true, err
		}
		c.add(uint64(i+1), e)
	}
	return t, false, nil
}
