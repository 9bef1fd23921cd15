package offload

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/tools"
)

// Values of the metadata key context_type.
const (
	ContextToolResult = "tool_result"
	// ContextForUser marks a text for the user that was too long to publish.
	ContextForUser = "for_user"
)

// Offloader makes results light. It is safe for concurrent use.
type Offloader struct {
	store   Store
	cfg     Config
	sweeper *sweeper
}

// NewOffloader returns an Offloader that stores artifacts in store. Without a
// store, offloading is disabled.
func NewOffloader(store Store, cfg Config) *Offloader {
	cfg = cfg.withDefaults()
	cfg.Disabled = cfg.Disabled || store == nil
	return &Offloader{store: store, cfg: cfg, sweeper: newSweeper()}
}

// Result returns the light form of res, the answer to call of the tool def: all
// of it in memory, small enough to be published, and with Artifact set if the
// text was stored. When Result returns, the artifact is durable. res is not
// changed, and remains the caller's to close.
//
// An error is the store's failure, or the loss of the tool's output; nothing
// was decided then. The caller tries again, and in the end asks Fallback. A
// retry with the same content finds the artifact of the first try.
func (o *Offloader) Result(ctx context.Context, call tools.Call, def tools.Definition, res *tools.Result) (*tools.Result, error) {
	call = inSession(call)
	light := *res
	light.Output = nil
	light.Err = publishable(res.Err)

	room := o.budget(call, &light)
	body, err := bodyOf(res, int64(room.text))
	if err != nil {
		return nil, fmt.Errorf("offload result %q: %w", call.IDToken(), err)
	}
	why, err := o.cfg.decide(call, def, body)
	if err != nil {
		return nil, fmt.Errorf("offload result %q: %w", call.IDToken(), err)
	}
	if res.Artifact != nil { // offloaded before
		why = keep
	}
	sameForUser := res.ForUser == res.ForLLM && res.Output == nil && res.Blocks == nil
	switch {
	case why != keep:
	case !body.fits(room.text), sameForUser && jsonLen(res.ForUser) > room.user:
		why = tooLarge
	case !utf8.ValidString(body.text):
		why = notText
	}

	switch {
	case why == keep:
		body.show(&light)
	case o.cfg.Disabled && why == notText:
		light.ForLLM = strings.ToValidUTF8(body.text, "\uFFFD")
	case o.cfg.Disabled:
		return o.Fallback(call, res, errors.New("offloading is off, and the result is too large to be sent")), nil
	default:
		if err := o.offload(ctx, call, &light, body, why, room.text); err != nil {
			return nil, fmt.Errorf("offload result %q: %w", call.IDToken(), err)
		}
	}
	return &light, o.shortenForUser(ctx, call, &light, sameForUser, room.user)
}

// inSession is what a call means that names no session.
func inSession(call tools.Call) tools.Call {
	if call.Session == "" {
		call.Session = tools.DefaultSession
	}
	return call
}

// offload stores the body and puts what the model sees into light.
func (o *Offloader) offload(ctx context.Context, call tools.Call, light *tools.Result, b body, why reason, room int) error {
	var prose *io.SectionReader
	if b.blocks != nil {
		prose = b.prose
	}
	rec := newRecord(call, ContextToolResult)
	rec.Truncated = b.truncated
	rec, err := o.put(ctx, rec, call.IDToken(), b.raw, summarize(prose))
	if err != nil {
		return err
	}
	o.show(call, light, b, rec, why, room)
	return nil
}

// show puts what the model sees of a stored body into light: all of it, if it
// is short, or the reference.
func (o *Offloader) show(call tools.Call, light *tools.Result, b body, rec Record, why reason, room int) {
	rec.Inline = b.fits(room) && rec.Chars < o.cfg.InlineChars && utf8.ValidString(b.text)
	light.Artifact = &rec.Artifact
	switch {
	case rec.Inline:
		b.show(light)
	case b.blocks != nil:
		light.Blocks, light.ForLLM = lightBlocks(b.blocks, Reference(rec), room)
	default:
		light.Blocks, light.ForLLM = nil, Reference(rec)
	}
	o.cfg.Log.Info().Str("context_type", ContextToolResult).Str("biz_id", tools.Excerpt(call.ID, 256)).
		Str("artifact_id", rec.ID).Str("session", rec.Session).Str("tool", call.Tool).
		Int64("chars", rec.Chars).Int64("bytes", rec.Size).Bool("inline", rec.Inline).
		Str("reason", string(why)).Msg("result offloaded")
}

// newRecord is the record of an artifact that call made.
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

// put stores src under id, or under one that derives from it.
func (o *Offloader) put(ctx context.Context, rec Record, id string, src *io.SectionReader, summarize func(*Record, Content) error) (Record, error) {
	return putFree(id, func(id string) (Record, error) {
		rec := rec
		rec.ID = id
		return o.withRoom(ctx, func() (Record, error) { return o.store.Put(ctx, rec, atStart(src), summarize) })
	}, atStart(src))
}

// putFree calls put with an id that is not taken. If id is, by another content,
// because a model used it twice, it takes one that derives from what seed gives:
// a retry arrives at the same one, and nothing is ever overwritten.
func putFree(id string, put func(id string) (Record, error), seed io.Reader) (Record, error) {
	rec, err := put(id)
	if !errors.Is(err, ErrExists) {
		return rec, err
	}
	h := sha256.New()
	if _, err := io.Copy(h, seed); err != nil {
		return Record{}, err
	}
	sum := suffixEncoding.EncodeToString(h.Sum(nil))
	for _, n := range []int{8, 16, len(sum)} {
		if rec, err = put(tools.TokenOf(id + "_" + sum[:n])); !errors.Is(err, ErrExists) {
			return rec, err
		}
	}
	return Record{}, err
}

var suffixEncoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

func atStart(src *io.SectionReader) *io.SectionReader { return io.NewSectionReader(src, 0, src.Size()) }
