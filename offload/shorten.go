package offload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/jsonform"
)

const (
	// maxErrorText bounds the message of an error, in bytes of JSON. The event
	// carries it in addition to the result's text.
	maxErrorText = 8 << 10
	// eventReserve is for the fields that the worker adds to an event: times,
	// numbers, names. cutNote is for the note in a ForUser that was cut.
	eventReserve = 4 << 10
	cutNote      = 256
)

// jsonLen returns the number of bytes that v takes in an event.
func jsonLen(v any) int {
	data, err := jsonform.Encode(v)
	if err != nil {
		return math.MaxInt
	}
	return len(data)
}

// jsonFits reports whether s takes at most limit bytes in an event. A byte of a short
// text takes at most 6.
func jsonFits(s string, limit int) bool { return 6*len(s)+2 <= limit || jsonLen(s) <= limit }

// fits reports whether the event of a result is small enough. A short result is not
// encoded: it would not become smaller.
func (o *Offloader) fits(call tools.Call, res *tools.Result) bool {
	return 16*(len(res.ForLLM)+len(res.ForUser)+len(res.Blocks)) <= o.cfg.MaxResult || o.left(call, res) >= 0
}

// left returns how many bytes of JSON the event of a result may still take.
func (o *Offloader) left(call tools.Call, res *tools.Result) int {
	return o.cfg.MaxResult - eventReserve - jsonLen(tools.NewResultEvent(call, res))
}

// fitText returns the start of s, at most limit bytes as JSON. It cuts no rune.
func fitText(s string, limit int) string {
	n := len(s)
	for size := jsonLen(s); size > limit && n > 0; size = jsonLen(s[:n]) {
		n = n * max(limit, 0) / (size + 1)
	}
	for n < len(s) && n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// shortenError returns err. If its text is too long to be published, shortenError
// returns an error with the same code and the start of the text.
func shortenError(err error) error {
	if err == nil || jsonFits(err.Error(), maxErrorText) {
		return err
	}
	return tools.Errorf(tools.CodeOf(err), "%s [shortened]", fitText(err.Error(), maxErrorText))
}

// shortenForUser cuts a ForUser that is too long to be published. If artifact is
// empty, it stores the whole text first; otherwise that artifact contains it.
func (o *Offloader) shortenForUser(ctx context.Context, call tools.Call, out *tools.Result, artifact string) error {
	if jsonFits(out.ForUser, o.cfg.maxForUser()) {
		return nil
	}
	if artifact == "" && !o.cfg.Disabled {
		rec, err := o.put(ctx, newRecord(call, contextForUser), tools.Token(call.ID+"_user"), sectionOf(out.ForUser), summarize(ctx))
		if err != nil {
			return fmt.Errorf("offload text for the user of %q: %w", call.IDToken(), err)
		}
		artifact = rec.ID
	}
	out.ForUser = o.cutForUser(out.ForUser, artifact)
	return nil
}

func (o *Offloader) cutForUser(text, artifact string) string {
	if jsonFits(text, o.cfg.maxForUser()) {
		return text
	}
	note := "the rest was not kept"
	if artifact != "" {
		note = "all of it is in the artifact " + artifact
	}
	head := fitText(text, o.cfg.maxForUser()-cutNote)
	return fmt.Sprintf("%s\n[shortened: %d of %d characters; %s]", head,
		utf8.RuneCountInString(head), utf8.RuneCountInString(text), note)
}

// Fallback returns the result for the model if a result cannot be stored, with as much of
// the text as fits. It is an error result that says so, or, if the store is full, the
// result as it is with a note. cause is the error that Result returned.
func (o *Offloader) Fallback(call tools.Call, res *tools.Result, cause error) *tools.Result {
	call = inSession(call)
	out := *res
	out.Output, out.Blocks, out.Artifact = nil, nil, nil
	reason := "unknown cause"
	if cause != nil {
		reason = tools.Excerpt(cause.Error(), 300)
	}
	if errors.Is(cause, ErrQuota) { // the tool did its work
		out.Err = shortenError(res.Err)
	} else {
		out.IsError, out.Err = true, tools.Errorf(tools.CodeOffloadFailed, "the result could not be stored: %s", reason)
	}
	out.ForUser = o.cutForUser(out.ForUser, "")
	plain, chars, err := plainOf(res)
	for budget := int(min(o.cfg.InlineChars, int64(o.cfg.MaxResult))) / 2; ; budget /= 2 {
		var text string
		if err == nil {
			text, err = preview(plain, plain.Size(), chars, budget)
		}
		if err != nil {
			text = fmt.Sprintf("[the result could not be read: %s]", tools.Excerpt(err.Error(), 300))
		}
		out.ForLLM = fmt.Sprintf("The tool ran, but its result could not be stored: %s.\nThis is as much of the result as fits:\n\n%s",
			reason, tools.EscapeBytes(text))
		if err != nil || budget == 0 || o.fits(call, &out) {
			return &out
		}
	}
}

// plainOf returns the plain text of a result, also if a write to it failed, and
// the number of its characters.
func plainOf(res *tools.Result) (*io.SectionReader, int64, error) {
	var plain *io.SectionReader
	if res.Output != nil {
		plain = res.Output.Reader()
	} else if b, err := bodyOf(res, 0); err != nil {
		return nil, 0, err
	} else {
		plain = b.plain
	}
	chars, err := countChars(plain, plain.Size())
	return plain, chars, err
}
