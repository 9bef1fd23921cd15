package agents

import (
	"context"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// draftInterval is how often a chat is told what the agent does. Telegram allows 20
	// messages and edits a minute in a group, and shows "typing" for 5 s.
	draftInterval = 4 * time.Second
	// resultInterval is how often showDraft looks for the result of its call.
	resultInterval = time.Second
	// draftTimeout bounds how long a run shows its draft.
	draftTimeout = time.Hour
	// deliveryTimeout is how long the notifier may take until the answer is in the chat, and
	// endTimeout how long the removal of a draft may take.
	deliveryTimeout = 10 * time.Second
	endTimeout      = 5 * time.Second
)

// growing is the draft of a run's answer: the text of the last turn and the tool that runs.
type growing struct {
	mu   sync.Mutex
	turn int
	text []rune
	tool string
}

func (g *growing) add(a tools.Activity) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a.Turn != g.turn {
		g.turn, g.text, g.tool = a.Turn, nil, ""
	}
	switch a.Type {
	case tools.ActivityText:
		if a.Offset <= len(g.text) { // otherwise, a piece was lost
			g.text = append(g.text[:a.Offset], []rune(a.Text)...)
		}
	case tools.ActivityToolStart:
		g.tool = "⏳ " + a.Tool + " " + tools.Excerpt(tools.EscapeLine(a.Args), 120)
	}
}

func (g *growing) draft() channel.Draft {
	g.mu.Lock()
	defer g.mu.Unlock()
	return channel.Draft{Text: string(g.text), Status: g.tool}
}

// showDraft shows in the chat of a call what the agent does, until the call has its result or
// the process stops: that the agent is typing, and then a message that grows and that becomes the
// answer (see notify). Failures are not retried: the answer does not depend on them.
func (in *Inbox) showDraft(call tools.Call) {
	ctx, cancel := context.WithTimeout(context.Background(), draftTimeout)
	defer cancel()
	var answer growing
	stop, err := rpc.WatchProgress(in.bus, call, func(event tools.ProgressEvent) {
		for _, a := range event.Activity {
			answer.add(a)
		}
	})
	if err != nil {
		return
	}
	defer stop()
	var (
		shown channel.Draft
		next  time.Time
	)
	for {
		draft, typing := answer.draft(), channel.Draft{}
		if draft != shown && shown == typing || time.Now().After(next) && (draft != shown || draft == typing) {
			next, shown = time.Now().Add(draftInterval), draft
			if err := in.show(ctx, call, draft); err != nil {
				pause, _ := bus.Postponed(err)
				next = next.Add(pause)
				in.log.Debug().Err(err).Str("channel", in.channel).Msg("cannot show the draft of an answer")
			}
		}
		select {
		case <-in.stop:
			return // whoever delivers the answer replaces the draft
		case <-ctx.Done():
		case <-time.After(resultInterval):
			// An error may be temporary.
			if _, ended, _ := task.ReadResult(ctx, in.bus, in.bus.Result(call.SessionToken(), call.IDToken())); !ended {
				continue
			}
		}
		break
	}
	select {
	case <-in.stop:
		return
	case <-time.After(deliveryTimeout):
	}
	ending, done := context.WithTimeout(context.Background(), endTimeout)
	defer done()
	if err := in.notifier.EndDraft(ending, in.drafts, in.channel, call); err != nil {
		in.log.Warn().Err(err).Str("channel", in.channel).Msg("cannot remove the draft of an answer")
	}
}

// show shows a draft, or that the agent is typing.
func (in *Inbox) show(ctx context.Context, call tools.Call, draft channel.Draft) error {
	if draft == (channel.Draft{}) {
		_, err := in.drafts.ShowDraft(ctx, call.ChatID, "", draft)
		return err
	}
	return in.notifier.ShowDraft(ctx, in.drafts, in.channel, call, draft)
}
