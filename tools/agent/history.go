package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// When a request exceeds this part of Config.ContextTokens, the loop shrinks the
	// history to the second part. It does not do so at each turn, because each time
	// the provider's cache is lost.
	shrinkAbove = 0.8
	shrinkTo    = 0.5

	// minOffloadChars: a shorter result stays, because its reference would be as long.
	minOffloadChars = 400
	// maxNote is the longest note, in bytes, that stays when its content leaves the history. What is longer
	// is a part of the content that did not fit into the store.
	maxNote = 4000
)

// NewHistoryOffloader returns an Offloader for Config.Offloader. It stores results
// of any length.
func NewHistoryOffloader(store offload.Store) *offload.Offloader {
	return offload.NewOffloader(store, offload.Config{InlineChars: 1})
}

// shrinkHistory makes the next request smaller if it would near the context limit.
func (r *run) shrinkHistory(ctx context.Context) error {
	size := r.request().EstimateTokens()
	if float64(size) <= shrinkAbove*float64(r.cfg.ContextTokens) {
		return nil
	}
	// The conversation gets at least as much as the system prompt and the tools.
	most := float64(max(r.cfg.ContextTokens, 2*r.requestFor(nil).EstimateTokens()))
	if float64(size) <= shrinkAbove*most {
		return nil
	}
	_, err := r.shrinkTo(ctx, size, int64(shrinkTo*most), int64(shrinkAbove*most))
	return err
}

// shrinkTo shrinks a request of size tokens to about target tokens: it offloads tool
// results, and if the request still has more than limit tokens, it replaces turns. It
// returns false if nothing changed.
func (r *run) shrinkTo(ctx context.Context, size, target, limit int64) (bool, error) {
	freed, err := r.offloadHistory(ctx, size, target)
	if err != nil {
		return false, err
	}
	if size = r.request().EstimateTokens(); size <= limit {
		return freed > 0, nil
	}
	compacted, err := r.compact(ctx, size, target, limit)
	return compacted || freed > 0, err
}

// offloadHistory replaces tool results by references, oldest first, until a request
// of size tokens has at most target tokens. It returns how many tokens it freed.
func (r *run) offloadHistory(ctx context.Context, size, target int64) (freed int64, err error) {
	if _, ok := r.tools[offload.ToolGet]; !ok {
		return 0, nil // the model could not read the results
	}
	references := map[string]string{}
	for _, res := range r.offloadable() {
		if size-freed <= target {
			break
		}
		artifact, note := res.Artifact, noteOf(res)
		if artifact == nil || len(note) > maxNote {
			note = ""
			artifact, err = r.store(ctx, res)
			if errors.Is(err, offload.ErrQuota) {
				break
			}
			if err != nil {
				return freed, fmt.Errorf("%w: offload the history of conversation %s: %w", errLog, r.session, err)
			}
		}
		if artifact == nil {
			continue // there is no store
		}
		reference := fmt.Sprintf("[Tool result offloaded: artifact '%s' has %d characters in %d lines; read it with %s, %s or %s]",
			artifact.ID, artifact.Chars, artifact.Lines, offload.ToolLines, offload.ToolGrep, offload.ToolGet) + note
		references[res.Call] = reference
		freed += offload.EstimateTokens(res.ForLLM) - offload.EstimateTokens(reference)
	}
	if len(references) == 0 {
		return 0, nil
	}
	r.cfg.Log.Info().Str("context_type", offload.ContextToolResult).Str("session", r.session).Str("run", r.id).
		Int("results", len(references)).Int64("tokens", freed).Msg("history offloaded")
	return freed, r.append(ctx, Entry{Kind: KindOffloaded, Offloaded: references})
}

// noteOf returns what a result has behind the content that is its artifact, such as an exit code, or where the content goes on.
func noteOf(res CallResult) string {
	text := []rune(res.ForLLM)
	if res.Artifact == nil || int(res.Artifact.Chars) >= len(text) {
		return ""
	}
	return "\n" + strings.Trim(string(text[res.Artifact.Chars:]), "\n")
}

// store offloads a tool result. It returns nil if there is no store. The same
// result always becomes the same artifact.
func (r *run) store(ctx context.Context, res CallResult) (*tools.Artifact, error) {
	if r.cfg.Offloader == nil {
		return nil, nil
	}
	call := tools.Call{ID: res.Call, Session: r.call.Session, Tool: res.Tool, AgentID: r.call.AgentID, TaskID: r.call.TaskID,
		Action: tools.ActionAgent, Offload: new(true)}
	offloaded, err := r.cfg.Offloader.Result(ctx, call, tools.Definition{Name: res.Tool}, tools.NewToolResult(res.ForLLM))
	if err != nil {
		return nil, err
	}
	return offloaded.Artifact, nil
}

// offloadable returns the results that may leave the history: long texts that are
// not references yet and do not come from tools that read artifacts. The oldest is
// first; results of the last turn, which the model has not seen, are last.
func (r *run) offloadable() []CallResult {
	var seen, unseen []CallResult
	for _, e := range r.conv.entries[r.conv.cut:] {
		for _, res := range e.Results {
			isReference := res.Artifact != nil && !res.Artifact.Inline
			if isReference || res.Blocks != nil || r.conv.references[res.Call] != "" || r.tools[res.Tool].NoOffload ||
				utf8.RuneCountInString(res.ForLLM) < minOffloadChars {
				continue
			}
			if _, last := r.conv.open.results[res.Call]; last {
				unseen = append(unseen, res)
			} else {
				seen = append(seen, res)
			}
		}
	}
	return append(seen, unseen...)
}
