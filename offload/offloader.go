package offload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/tools"
)

// Values of the metadata key context_type.
const (
	ContextToolResult = "tool_result"
	// contextForUser marks a text for the user that was too long to publish.
	contextForUser = "for_user"
)

// Offloader makes results small enough to publish. It is safe for concurrent use.
type Offloader struct {
	store   Store
	cfg     Config
	sweeper *sweeper
	recent  recent
}

// NewOffloader returns an Offloader that stores artifacts in store. Without a
// store, offloading is disabled.
func NewOffloader(store Store, cfg Config) *Offloader {
	cfg = cfg.withDefaults()
	cfg.Disabled = cfg.Disabled || store == nil
	return &Offloader{store: store, cfg: cfg, sweeper: &sweeper{turn: make(chan struct{}, 1)}}
}

// Result returns res, the answer to call of the tool def, in the form to publish:
// all of it in memory, small enough for an event, and with Artifact set if the text
// was stored. When Result returns, the artifact is durable. Result does not change
// res, and the caller still closes it.
//
// An error means that the store failed or that the tool's output is lost. The
// caller then tries again, and in the end calls Fallback. A retry with the same
// content finds the artifact of the first try.
func (o *Offloader) Result(ctx context.Context, call tools.Call, def tools.Definition, res *tools.Result) (*tools.Result, error) {
	out, err := o.result(ctx, inSession(call), def, res)
	if err != nil {
		return nil, fmt.Errorf("offload result %q: %w", call.IDToken(), err)
	}
	return out, nil
}

func (o *Offloader) result(ctx context.Context, call tools.Call, def tools.Definition, res *tools.Result) (*tools.Result, error) {
	out := *res
	out.Output, out.Err = nil, shortenError(res.Err)
	b, err := bodyOf(res, int64(o.cfg.MaxResult))
	if err != nil {
		return nil, err
	}
	taken := !o.cfg.Disabled && !def.NoOffload && (call.Offload == nil || *call.Offload) && b.takePictures(o.cfg.MaxResult)
	if b.blocks != nil && !o.cfg.Disabled { // an artifact of the whole result has the blocks as they came
		fitted, changed, err := o.fitPictures(ctx, call, b.blocks)
		if err != nil {
			return nil, err
		}
		if changed || taken {
			b.blocks = fitted
			if out.Blocks, err = encodeBlocks(b.blocks); err != nil {
				return nil, err
			}
		}
	}
	sameForUser := res.ForUser == res.ForLLM && res.Output == nil && res.Blocks == nil
	if !sameForUser {
		if err := o.shortenForUser(ctx, call, &out, ""); err != nil {
			return nil, err
		}
	}
	b.inline(&out)
	why, err := o.plan(call, def, b, taken, &out)
	if err != nil {
		return nil, err
	}
	switch {
	case why == keep:
		return &out, nil
	case o.cfg.Disabled && why == notText:
		out.ForLLM = b.withoutStore()
		return &out, nil
	case o.cfg.Disabled:
		return o.Fallback(call, res, errors.New("offloading is off, and the result is too large to be sent")), nil
	}
	rec := newRecord(call, ContextToolResult)
	rec.Truncated = b.truncated
	rec, err = o.put(ctx, rec, call.IDToken(), b.raw, b.summarize(ctx))
	if errors.Is(err, ErrQuota) {
		rec, err = o.putPart(ctx, call, b, err)
	}
	if err != nil {
		return nil, err
	}
	if sameForUser {
		if err := o.shortenForUser(ctx, call, &out, rec.ID); err != nil {
			return nil, err
		}
	}
	rec.sameAs = o.sameAs(ctx, rec)
	o.refer(call, &out, b, rec, why)
	return &out, nil
}

// plan returns why a result is offloaded, or keep. out has its whole body; taken says that pictures
// were taken out of it.
func (o *Offloader) plan(call tools.Call, def tools.Definition, b body, taken bool, out *tools.Result) (reason, error) {
	fresh := out.Artifact == nil // otherwise, it was offloaded before
	asked, err := o.cfg.decide(call, def, b)
	switch {
	case err != nil:
		return keep, err
	case fresh && asked != keep:
		return asked, nil
	case fresh && taken: // refer checks the budget
		return pictures, nil
	case fresh && b.inMemory && o.exceedsBudget(call, def, b.text):
		return tooMany, nil
	case !b.inMemory, !o.fits(call, out), !jsonFits(out.ForUser, o.cfg.maxForUser()):
		return tooLarge, nil
	case !utf8.ValidString(b.text):
		return notText, nil
	}
	return keep, nil
}

// inSession puts a call that names no session into the default session.
func inSession(call tools.Call) tools.Call {
	call.Session = cmp.Or(call.Session, tools.DefaultSession)
	return call
}

// refer puts the content of an artifact for the model into out: the whole body if
// it is short and within the budget, otherwise the reference.
func (o *Offloader) refer(call tools.Call, out *tools.Result, b body, rec Record, why reason) {
	out.Artifact = &rec.Artifact
	rec.Inline = true
	b.inline(out)
	limit := o.cfg.inlineChars(rec)
	if b.blocks != nil { // prose, as far as we know, although its JSON can be queried
		limit = o.cfg.InlineChars
	}
	short := b.inMemory && rec.Chars < limit && why != tooMany && o.FitsBudget(call.SessionToken(), int(rec.Chars))
	if short && b.blocks == nil && rec.Type != TypeBinary && !utf8.ValidString(b.text) {
		rec.Inline = false // not the exact bytes
		out.ForLLM = b.withNote(b.readable(rec.charset()) + "\n" + readableNotice(rec))
		if o.fits(call, out) {
			o.logOffload(call, rec, why)
			return
		}
	}
	if !short || !utf8.ValidString(b.text) || !o.fits(call, out) {
		rec.Inline = false
		out.Blocks, out.ForLLM = nil, b.withNote(o.cfg.reference(rec))
		if b.blocks != nil {
			out.Blocks, out.ForLLM = keepMedia(b.blocks, out.ForLLM, o.left(call, out))
		}
	}
	o.logOffload(call, rec, why)
}

func (o *Offloader) logOffload(call tools.Call, rec Record, why reason) {
	o.cfg.Log.Info().Str("context_type", ContextToolResult).Str("biz_id", tools.Excerpt(call.ID, 256)).
		Str("artifact_id", rec.ID).Str("session", rec.Session).Str("tool", call.Tool).
		Int64("chars", rec.Chars).Int64("bytes", rec.Size).Bool("inline", rec.Inline).
		Str("reason", string(why)).Msg("result offloaded")
}

// newRecord returns the record of an artifact of call.
func newRecord(call tools.Call, contextType string) Record {
	return Record{
		Session: call.SessionToken(),
		Metadata: map[string]string{
			"context_type": contextType, "biz_id": call.ID,
			"agent_id": call.AgentID, "task_id": call.TaskID, "session_id": call.Session,
			"tool_name": call.Tool, "action_name": call.Action,
		},
	}
}
