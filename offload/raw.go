package offload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
)

// Raw returns the result in a raw event, which the producer's own tool made. The text
// is for_llm, content (a string or content blocks), or an object that the producer
// put into the store's bucket. Raw stores an object as an artifact, which Result does
// not change.
//
// A *tools.Error says what is wrong with the event. Any other error comes from the
// store, and the caller tries again.
func (o *Offloader) Raw(ctx context.Context, e tools.RawEvent) (*tools.Result, error) {
	res := &tools.Result{UserContent: e.UserContent, Silent: e.Silent, IsError: e.IsError, ExitCode: e.ExitCode}
	if e.IsError && e.Error != nil {
		res.Err = tools.Errorf(e.Error.Code, "%s", e.Error.Message)
	}
	content := bytes.TrimSpace(e.Content)
	if bytes.Equal(content, []byte("null")) {
		content = nil
	}
	texts := 0
	for _, given := range []bool{e.ForLLM != nil, content != nil, e.Object != ""} {
		if given {
			texts++
		}
	}
	switch {
	case texts == 0:
		return nil, tools.Errorf(tools.CodeInvalidCall, "the raw result has no text; send for_llm, content or object")
	case texts > 1:
		return nil, tools.Errorf(tools.CodeInvalidCall, "the raw result has more than one of for_llm, content and object; send one")
	case e.Object != "":
		return res, o.adopt(ctx, e, res)
	case e.ForLLM != nil:
		res.ForLLM = *e.ForLLM
	case content[0] == '"':
		if err := json.Unmarshal(content, &res.ForLLM); err != nil {
			return nil, tools.Errorf(tools.CodeInvalidCall, "content of the raw result: %v", err)
		}
	case content[0] == '[':
		res.Blocks = content
	default:
		return nil, tools.Errorf(tools.CodeInvalidCall, "content of the raw result: want a string or an array of content blocks")
	}
	if e.Note != "" && res.Blocks == nil {
		return res, withNote(res, e.Note)
	}
	return res, nil
}

// withNote makes the text of a result an output with a note.
func withNote(res *tools.Result, note string) error {
	res.Output = tools.NewOutput(tools.OutputLimits{})
	if _, err := io.WriteString(res.Output, res.ForLLM); err != nil {
		return err
	}
	res.Output.Note(strings.TrimPrefix(note, "\n"))
	res.ForLLM = ""
	return res.Output.Err()
}

// adopt makes an artifact of the object that e names, and puts its text or its
// reference into res.
func (o *Offloader) adopt(ctx context.Context, e tools.RawEvent, res *tools.Result) error {
	adopter, ok := o.store.(Adopter)
	name := tools.Excerpt(e.Object, 200)
	if !ok || o.cfg.Disabled {
		return tools.Errorf(tools.CodeInvalidCall, "the raw result names the object %q, but the store of this worker accepts no objects; "+
			"send for_llm or content", name)
	}
	call := inSession(e.Call)
	// The name is the only thing that tells whose upload it is.
	if prefix := call.SessionToken() + "/"; !strings.HasPrefix(e.Object, prefix) {
		return tools.Errorf(tools.CodeInvalidCall, "the raw result names the object %q, which does not belong to its session; upload it "+
			"with a name that begins with %q", name, prefix)
	}
	rec, err := putFree(newRecord(call, ContextToolResult), call.IDToken(), func(rec Record) (Record, error) {
		return o.sweepIfFull(ctx, func() (Record, error) { return adopter.PutObject(ctx, rec, e.Object, summarize(ctx)) })
	}, strings.NewReader(e.Object))
	switch {
	case errors.Is(err, ErrNotFound):
		return tools.Errorf(tools.CodeNotFound, "there is no object %q in the bucket; put it there before the raw result", name)
	case errors.Is(err, ErrCorrupt):
		return tools.Errorf(CodeCorrupt, "the object %q is damaged", name)
	case err != nil:
		return err
	}
	b, err := o.storedBody(ctx, rec)
	if err != nil {
		return fmt.Errorf("read object %q: %w", name, err)
	}
	o.refer(call, res, b, rec, adopted)
	return nil
}

// storedBody returns the body of an artifact. It reads only a short one.
func (o *Offloader) storedBody(ctx context.Context, rec Record) (body, error) {
	if rec.Type == TypeBinary || rec.Chars >= o.cfg.InlineChars {
		return body{}, nil
	}
	text, err := o.content(ctx, rec)
	return textBody(text), err
}

// content returns the whole content of an artifact.
func (o *Offloader) content(ctx context.Context, rec Record) (string, error) {
	c, err := o.store.Open(ctx, rec)
	if err != nil {
		return "", err
	}
	text, err := readRange(c, 0, c.Size())
	return string(text), errors.Join(err, c.Close())
}
