package agentprotocol

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// protocolVersion and queueGroup are those of the protocol.
	protocolVersion = "0.3"
	queueGroup      = "agents"
	// interval is how often an agent sends a heartbeat, and a keepalive to each open prompt. The
	// protocol's clients give up a stream that is silent for 60 s.
	interval = 20 * time.Second
	// acceptTimeout is how long a prompt may take until it is stored.
	acceptTimeout = 40 * time.Second
	// answersAtOnce is how many answers to queries a session stores at once; others wait.
	answersAtOnce = 16
)

// heartbeat says that an agent lives.
type heartbeat struct {
	Agent      string    `json:"agent"`
	Owner      string    `json:"owner"`
	Session    string    `json:"session"`
	InstanceID string    `json:"instance_id"`
	At         time.Time `json:"ts"`
	IntervalS  int       `json:"interval_s"`
}

// Receive offers the agents until ctx ends.
func (c *Channel) Receive(ctx context.Context, inbox channel.Inbox, log zerolog.Logger) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, name := range c.cfg.Sessions {
		group.Go(func() error {
			s := &session{Channel: c, name: name, inbox: inbox, log: log, waiting: map[string]bool{}}
			return s.serve(ctx)
		})
	}
	return group.Wait()
}

// session is one agent.
type session struct {
	*Channel
	name  string
	inbox channel.Inbox
	log   zerolog.Logger
	id    string // of this instance

	mu sync.Mutex
	// waiting are the clients of prompts that were open at the last beat, or began after it.
	waiting map[string]bool
}

// serve runs the service of a session until ctx ends.
func (s *session) serve(ctx context.Context) error {
	nc := s.bus.Conn()
	svc, err := micro.AddService(nc, micro.Config{
		Name: "agents", Version: s.cfg.Version, Description: "a durable agent of Stevedore", QueueGroup: queueGroup,
		Metadata: map[string]string{"agent": s.cfg.Agent, "owner": s.cfg.Owner, "session": s.name, "protocol_version": protocolVersion},
	})
	if err != nil {
		return fmt.Errorf("start the agent %s: %w", s.name, err)
	}
	s.id = svc.Info().ID
	prompt := map[string]string{"max_payload": fmt.Sprintf("%dKB", nc.MaxPayload()>>10), "attachments_ok": "true"}
	life, end := context.WithCancel(context.WithoutCancel(ctx)) // requests that have come are handled after ctx
	defer end()
	bounded := func(slots *semaphore.Weighted, handle func(context.Context, micro.Request)) micro.HandlerFunc {
		return func(r micro.Request) {
			if slots.Acquire(life, 1) != nil {
				return // the service has ended
			}
			go func() {
				defer slots.Release(1)
				handle(life, r)
			}()
		}
	}
	prompts, answers := semaphore.NewWeighted(1), semaphore.NewWeighted(answersAtOnce) // prompts stay in their order
	err = errors.Join(
		svc.AddEndpoint("prompt", bounded(prompts, s.prompt), micro.WithEndpointSubject(s.subject("prompt", s.name)), micro.WithEndpointMetadata(prompt)),
		svc.AddEndpoint("status", micro.HandlerFunc(s.status), micro.WithEndpointSubject(s.subject("status", s.name))),
		svc.AddEndpoint("answer", bounded(answers, s.answer), micro.WithEndpointSubject(s.subject("answer", s.name)+".*")),
	)
	if err != nil {
		return errors.Join(fmt.Errorf("start the agent %s: %w", s.name, err), svc.Stop())
	}
	for s.beat(ctx); tools.Sleep(ctx, interval) == nil; {
		s.beat(ctx)
	}
	if err := svc.Stop(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		return err
	}
	return errors.Join(prompts.Acquire(life, 1), answers.Acquire(life, answersAtOnce)) // the last requests have ended
}

// status answers with a heartbeat. If that fails, the client asks again.
func (s *session) status(r micro.Request) { _ = r.RespondJSON(s.heartbeat()) }

func (s *session) heartbeat() heartbeat {
	return heartbeat{s.cfg.Agent, s.cfg.Owner, s.name, s.id, time.Now().UTC().Truncate(time.Second), int(interval.Seconds())}
}

// prompt stores a prompt and acknowledges it.
func (s *session) prompt(ctx context.Context, r micro.Request) {
	client := r.Reply()
	if !s.bus.IsInbox(client) {
		s.log.Warn().Str("session", s.name).Str("reply", tools.Excerpt(client, 200)).Msg("ignored a prompt whose reply subject is not an inbox")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	code, err := s.accept(ctx, client, r.Data())
	if err != nil {
		s.log.Warn().Err(err).Str("session", s.name).Str("code", code).Msg("a prompt is not accepted")
		err = errors.Join(s.fail(client, code, err.Error()), s.end(ctx, client))
	} else {
		s.mu.Lock()
		s.waiting[client] = true
		s.mu.Unlock()
		err = s.publish(ctx, client, chunk{"status", "ack"})
	}
	if err != nil {
		s.log.Warn().Err(err).Str("session", s.name).Msg("a client may not know whether its prompt was accepted")
	}
}

// accept gives a prompt to the inbox. code is that of the error.
func (s *session) accept(ctx context.Context, client string, body []byte) (code string, err error) {
	e, err := decode(body)
	if err != nil {
		return "400", err
	}
	files, err := e.files()
	if err != nil {
		return "400", err
	}
	_, err = s.inbox.Accept(ctx, channel.Incoming{ID: client, ChatID: s.name, Text: strings.TrimSpace(e.Prompt), Files: files})
	failure, final := errors.AsType[*tools.Error](err)
	switch {
	case final && failure.Code == tools.CodeMismatch:
		return "409", errors.New("this reply subject belongs to another prompt; use a new one for each prompt")
	case final, errors.Is(err, bus.ErrTooLarge):
		return "400", err
	}
	return "500", err
}

// answer decides the approval that a client was asked for.
func (s *session) answer(ctx context.Context, r micro.Request) {
	ctx, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	key := r.Subject()[strings.LastIndexByte(r.Subject(), '.')+1:]
	e, err := decode(r.Data())
	yes, reason, ok := agents.YesOrNo(e.Prompt)
	if err == nil && ok {
		_, err = s.inbox.Decide(ctx, channel.Decision{Key: key, ChatID: s.name, Approve: yes, Reason: reason, By: s.cfg.Name + ":" + s.name})
	} else if open, readErr := s.open(ctx, s.name); readErr == nil && len(open) > 0 {
		err = s.ask(ctx, open[0], s.name, key, "Answer yes, no, or no and a reason.")
	}
	if err != nil {
		s.log.Warn().Err(err).Str("session", s.name).Msg("the answer to a query has no effect")
	}
}

// beat sends a heartbeat, and a keepalive to each open prompt. It ends the streams of prompts
// that have ended since the last beat and for which the notifier has no text.
func (s *session) beat(ctx context.Context) {
	s.mu.Lock()
	ended := maps.Clone(s.waiting)
	s.mu.Unlock()
	err := s.publish(ctx, s.subject("hb", s.name), s.heartbeat())
	open, listErr := s.open(ctx, s.name)
	if listErr != nil {
		ended = nil
	}
	err = errors.Join(err, listErr)
	for _, client := range open {
		delete(ended, client)
		err = errors.Join(err, s.publish(ctx, client, chunk{"status", "keepalive"}))
	}
	for client := range ended {
		err = errors.Join(err, s.finishSilent(ctx, client))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for client := range ended {
		delete(s.waiting, client)
	}
	for _, client := range open {
		s.waiting[client] = true
	}
	if err != nil && ctx.Err() == nil {
		s.log.Debug().Err(err).Str("session", s.name).Msg("cannot reach all clients")
	}
}

// finishSilent ends the stream of a prompt whose result has no text for the user.
func (s *session) finishSilent(ctx context.Context, client string) error {
	id := tools.TokenOf(agents.MessageID(client))
	result, ended, err := task.ReadResult(ctx, s.bus, s.bus.Result(s.conversation(s.name), id))
	if err != nil || !ended || !result.Silent && strings.TrimSpace(result.ForUser) != "" {
		return err
	}
	if result.Outcome != tools.Completed {
		if err := s.fail(client, "500", fmt.Sprintf("the run ended without an answer: %s", result.Outcome)); err != nil {
			return err
		}
	}
	return s.end(ctx, client)
}
