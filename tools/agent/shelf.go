package agent

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// Shelf keeps tool results that leave the history.
type Shelf interface {
	// Shelve stores the text that answered a call as an artifact of the call's
	// session, and returns it. It is durable then. The same text, shelved
	// again, is the same artifact.
	Shelve(ctx context.Context, call tools.Call, text string) (tools.Artifact, error)
}

// ArtifactShelf is a Shelf in a store of artifacts.
type ArtifactShelf struct{ offloader *offload.Offloader }

// NewArtifactShelf returns a Shelf in store.
func NewArtifactShelf(store offload.Store) ArtifactShelf {
	return ArtifactShelf{offload.NewOffloader(store, offload.Config{InlineChars: 1})}
}

// Shelve stores a text.
func (s ArtifactShelf) Shelve(ctx context.Context, call tools.Call, text string) (tools.Artifact, error) {
	force := true
	call.Offload = &force
	light, err := s.offloader.Result(ctx, call, tools.Definition{Name: call.Tool}, tools.NewToolResult(text))
	if err != nil {
		return tools.Artifact{}, err
	}
	if light.Artifact == nil {
		return tools.Artifact{}, errors.New("shelve a tool result: there is no store of artifacts")
	}
	return *light.Artifact, nil
}

// The history is made lighter when it fills this part of the context, and down
// to that: not at every turn, because each time the provider's cache is lost.
const (
	heavyPart = 0.8
	lightPart = 0.5
)

// minShelved is the length, in characters, below which a result stays: its
// reference would be as long.
const minShelved = 400

// lighten offloads old tool results if the next request comes near the context
// budget.
func (r *run) lighten(ctx context.Context) error {
	size := r.request().EstimateTokens(r.cfg.Counter)
	if float64(size) <= heavyPart*float64(r.cfg.ContextTokens) {
		return nil
	}
	_, err := r.shelve(ctx, size, int64(lightPart*float64(r.cfg.ContextTokens)))
	return err
}

// shelve replaces tool results by references, oldest first, until a request of
// size tokens has no more than target, or nothing is left to replace. Those of
// the last turn, which the model has not seen, go last. It returns how many
// tokens it freed.
func (r *run) shelve(ctx context.Context, size, target int64) (freed int64, err error) {
	if _, ok := r.offered[offload.ToolGet]; !ok {
		return 0, nil // the model could not read them back
	}
	moved := map[string]string{}
	old, fresh := r.shelvable()
	for _, a := range append(old, fresh...) {
		if size-freed <= target {
			break
		}
		artifact := a.Artifact
		if artifact == nil {
			if r.cfg.Shelf == nil {
				continue
			}
			call := tools.Call{ID: a.Call, Session: r.call.Session, Tool: a.Tool, AgentID: r.call.AgentID, TaskID: r.call.TaskID, Action: tools.ActionAgent}
			stored, err := r.cfg.Shelf.Shelve(ctx, call, a.ForLLM)
			if err != nil {
				return freed, fmt.Errorf("offload the history of conversation %s: %w", r.session, err)
			}
			artifact = &stored
		}
		reference := fmt.Sprintf("[Tool result offloaded: the artifact '%s' holds its %d characters in %d lines; read it with %s, %s or %s]",
			artifact.ID, artifact.Chars, artifact.Lines, offload.ToolLines, offload.ToolGrep, offload.ToolGet)
		moved[a.Call] = reference
		freed += r.cfg.Counter.Count(a.ForLLM) - r.cfg.Counter.Count(reference)
	}
	if len(moved) == 0 {
		return 0, nil
	}
	r.cfg.Logger.Info().Str("context_type", offload.ContextToolResult).Str("session", r.session).Str("run", r.id).
		Int("results", len(moved)).Int64("tokens", freed).Msg("history offloaded")
	return freed, r.append(ctx, Entry{Kind: KindShelved, Shelved: moved})
}

// shelvable lists the answers that may leave the history, oldest first: long
// texts that are not references already, but for those of tools that read
// artifacts back.
func (r *run) shelvable() (old, fresh []Answer) {
	for _, e := range r.conv.entries {
		for _, a := range e.Answers {
			isReference := a.Artifact != nil && !a.Artifact.Inline
			if isReference || a.Blocks != nil || r.conv.shelved[a.Call] != "" || r.offered[a.Tool].NoOffload ||
				utf8.RuneCountInString(a.ForLLM) < minShelved {
				continue
			}
			if _, last := r.conv.open.answers[a.Call]; last {
				fresh = append(fresh, a)
			} else {
				old = append(old, a)
			}
		}
	}
	return old, fresh
}
