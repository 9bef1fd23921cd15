package offload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// maxErrorText bounds the message of an error, which travels beside the
	// result's text, in bytes of JSON.
	maxErrorText = 8 << 10
	// eventFrame is more than what the fields of fixed size take in an event:
	// names, times, numbers, the artifact.
	eventFrame = 4 << 10
	// minRoom and minForUser are left whatever the ids take: a reference and
	// its preview fit.
	minRoom    = 24 << 10
	minForUser = 1 << 10
)

// budget is how many bytes of JSON the parts of a result may take, so that the
// whole event stays within MaxResult.
type budget struct{ text, user int }

func (o *Offloader) budget(call tools.Call, res *tools.Result) budget {
	left := o.cfg.MaxResult - eventFrame
	for _, s := range []string{call.ID, call.Session, call.Tool, call.Channel, call.ChatID} {
		left -= jsonLen(s)
	}
	if res.IsError && res.Err != nil {
		left -= jsonLen(res.Err.Error())
	}
	user := max(min(o.cfg.MaxForUser, left/4), minForUser)
	left -= min(user, jsonLen(res.ForUser))
	return budget{text: max(left, minRoom), user: user}
}

// publishable returns err, or if its text is too long, one with the same code
// and the head of the text: the whole stands in the result's text.
func publishable(err error) error {
	if err == nil || jsonLen(err.Error()) <= maxErrorText {
		return err
	}
	return tools.Errorf(tools.CodeOf(err), "%s [shortened]", fitText(err.Error(), maxErrorText-64))
}

// shortenForUser cuts a ForUser that is too long to be published. The rest is
// in the result's artifact if both have the same text, or else in one of its own.
func (o *Offloader) shortenForUser(ctx context.Context, call tools.Call, light *tools.Result, same bool, limit int) error {
	if jsonLen(light.ForUser) <= limit {
		return nil
	}
	note := "the rest was not kept"
	switch {
	case same && light.Artifact != nil:
		note = "all of it is in the artifact " + light.Artifact.ID
	case !o.cfg.Disabled:
		rec := newRecord(call, ContextForUser)
		rec, err := o.put(ctx, rec, tools.Token(call.ID+"_user"), sectionOf(light.ForUser), summarize(nil))
		if err != nil {
			return fmt.Errorf("offload text for the user of %q: %w", call.IDToken(), err)
		}
		note = "all of it is in the artifact " + rec.ID
	}
	light.ForUser = cutForUser(light.ForUser, note, limit)
	return nil
}

func cutForUser(text, note string, limit int) string {
	head := fitText(text, limit-256)
	return fmt.Sprintf("%s\n[shortened: %d of %d characters; %s]", head,
		utf8.RuneCountInString(head), utf8.RuneCountInString(text), note)
}

// fitText returns the longest beginning of s that takes at most n bytes of
// JSON, and that does not cut a rune.
func fitText(s string, n int) string {
	n -= 2 // quotes
	for i, r := range s {
		if n -= jsonLen(string(r)) - 2; n < 0 {
			return s[:i]
		}
	}
	return s
}

// Fallback returns what the model gets if a result cannot be stored for good:
// an error result that says so, with as much of the text as fits, never an
// empty one. cause is what Result returned.
func (o *Offloader) Fallback(call tools.Call, res *tools.Result, cause error) *tools.Result {
	call = inSession(call)
	light := *res
	light.Output, light.Blocks, light.Artifact = nil, nil, nil
	light.IsError = true
	reason := "unknown cause"
	if cause != nil {
		reason = tools.Excerpt(cause.Error(), 300)
	}
	light.Err = tools.Errorf(tools.CodeOffloadFailed, "the result could not be stored: %s", reason)
	room := o.budget(call, &light)
	if jsonLen(light.ForUser) > room.user {
		light.ForUser = cutForUser(light.ForUser, "the rest was not kept", room.user)
	}
	text, err := o.whatFits(res, room.text-maxErrorText)
	if err != nil {
		text = fmt.Sprintf("[nothing of it could be read: %s]", tools.Excerpt(err.Error(), 300))
	}
	light.ForLLM = fmt.Sprintf("The tool ran, but its result could not be stored: %s.\nWhat follows is as much of it as fits.\n\n%s", reason, text)
	return &light
}

// whatFits returns the text of a result if it fits into room bytes of JSON and
// into the prompt, or its head and tail.
func (o *Offloader) whatFits(res *tools.Result, room int) (string, error) {
	b, err := bodyOf(&tools.Result{ForLLM: res.ForLLM, Blocks: res.Blocks}, 0)
	if err != nil {
		return "", err
	}
	prose := b.prose
	if res.Output != nil {
		prose = res.Output.Reader() // also if a write to it failed
	}
	chars, err := countChars(prose, prose.Size())
	if err != nil {
		return "", err
	}
	for budget := int(min(o.cfg.InlineChars, int64(room))) / 2; ; budget /= 2 {
		head, tail, err := headTail(prose, prose.Size(), budget)
		if err != nil {
			return "", err
		}
		text := strings.ToValidUTF8(joinHeadTail(head, tail, chars), "\uFFFD")
		if jsonLen(text) <= room {
			return text, nil
		}
		if budget == 0 {
			return "", errors.New("there is no room for it")
		}
	}
}
