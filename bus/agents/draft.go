package agents

import (
	"context"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/notify"
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
			if err := in.drafts.show(ctx, call, draft); err != nil {
				pause, _ := consume.Postponed(err)
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
	if err := in.drafts.end(ending, call); err != nil {
		in.log.Warn().Err(err).Str("channel", in.channel).Msg("cannot remove the draft of an answer")
	}
}

// drafts shows the answers of a channel as they grow.
type drafts interface {
	show(ctx context.Context, call tools.Call, draft channel.Draft) error
	// end removes the draft of a call whose answer is not in its place.
	end(ctx context.Context, call tools.Call) error
}

func draftsOf(b *bus.Bus, notifier *notify.Notifier, name string, ch channel.Channel) drafts {
	switch ch := ch.(type) {
	case channel.DraftChannel:
		return edited{notifier, ch, name}
	case *channel.Bridge:
		return published{b, ch, name}
	}
	return nil
}

// edited are drafts that the process edits.
type edited struct {
	notifier *notify.Notifier
	to       channel.DraftChannel
	name     string
}

// show shows a draft, or that the agent is typing.
func (e edited) show(ctx context.Context, call tools.Call, draft channel.Draft) error {
	if draft == (channel.Draft{}) {
		_, err := e.to.ShowDraft(ctx, call.ChatID, "", draft)
		return err
	}
	return e.notifier.ShowDraft(ctx, e.to, e.name, call, draft)
}

func (e edited) end(ctx context.Context, call tools.Call) error {
	return e.notifier.EndDraft(ctx, e.to, e.name, call)
}

// published are drafts that a bridge shows.
type published struct {
	bus  *bus.Bus
	to   *channel.Bridge
	name string
}

func (p published) show(_ context.Context, call tools.Call, draft channel.Draft) error {
	return p.publish(p.to.Draft(call.Session, call.ID, call.ChatID, draft))
}

func (p published) end(_ context.Context, call tools.Call) error {
	return p.publish(channel.BridgeDraft{Session: call.Session, Call: call.ID, ChatID: call.ChatID, Done: true})
}

func (p published) publish(draft channel.BridgeDraft) error {
	body, err := bus.Encode(draft)
	if err != nil {
		return err
	}
	return p.bus.Conn().Publish(p.bus.Draft(p.name), body)
}
