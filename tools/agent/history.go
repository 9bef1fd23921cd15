package agent

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// NewHistoryOffloader returns an Offloader for Config.Offloader. Its references
// never show the whole text, however short it is.
func NewHistoryOffloader(store offload.Store) *offload.Offloader {
	return offload.NewOffloader(store, offload.Config{InlineChars: 1})
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
			if artifact, err = r.store(ctx, a); err != nil {
				return freed, fmt.Errorf("offload the history of conversation %s: %w", r.session, err)
			}
		}
		if artifact == nil {
			continue // there is no store
		}
		reference := fmt.Sprintf("[Tool result offloaded: the artifact '%s' holds its %d characters in %d lines; read it with %s, %s or %s]",
			artifact.ID, artifact.Chars, artifact.Lines, offload.ToolLines, offload.ToolGrep, offload.ToolGet)
		moved[a.Call] = reference
		freed += r.cfg.Counter.Count(a.ForLLM) - r.cfg.Counter.Count(reference)
	}
	if len(moved) == 0 {
		return 0, nil
	}
	r.cfg.Log.Info().Str("context_type", offload.ContextToolResult).Str("session", r.session).Str("run", r.id).
		Int("results", len(moved)).Int64("tokens", freed).Msg("history offloaded")
	return freed, r.append(ctx, Entry{Kind: KindOffloaded, Offloaded: moved})
}

// store offloads a tool result, and returns nil if there is no store. The same
// result, stored again, becomes the same artifact.
func (r *run) store(ctx context.Context, a CallResult) (*tools.Artifact, error) {
	if r.cfg.Offloader == nil {
		return nil, nil
	}
	force := true
	call := tools.Call{ID: a.Call, Session: r.call.Session, Tool: a.Tool, AgentID: r.call.AgentID, TaskID: r.call.TaskID, Action: tools.ActionAgent, Offload: &force}
	light, err := r.cfg.Offloader.Result(ctx, call, tools.Definition{Name: a.Tool}, tools.NewToolResult(a.ForLLM))
	if err != nil {
		return nil, err
	}
	return light.Artifact, nil
}

// shelvable lists the answers that may leave the history, oldest first: long
// texts that are not references already, but for those of tools that read
// artifacts back.
func (r *run) shelvable() (old, fresh []CallResult) {
	for _, e := range r.conv.entries {
		for _, a := range e.Results {
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
