package remote

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// Config says how remote tools are called. The zero value works.
type Config struct {
	// Timeout is how long an answer is waited for. Default 5 minutes.
	Timeout time.Duration
	// Patience is how long a tool that nobody serves is sought before that is
	// the answer. Default 3 seconds.
	Patience time.Duration
	// MaxAnswer is the largest answer that is taken, in bytes; the server's
	// max_payload bounds it as well. Default 8 MiB.
	MaxAnswer int
	Log       zerolog.Logger
}

func (c Config) withDefaults() Config {
	if c.Timeout <= 0 {
		c.Timeout = 5 * time.Minute
	}
	if c.Patience <= 0 {
		c.Patience = 3 * time.Second
	}
	if c.MaxAnswer <= 0 {
		c.MaxAnswer = 8 << 20
	}
	return c
}

// Tool is a tool that lives behind a subject.
type Tool struct {
	bus     *bus.Bus
	subject string
	cfg     Config
	def     tools.Definition
}

// Open asks who serves subject for the tool's definition and returns the tool
// under a name of ours. If nobody serves it now, the tool is there all the same,
// with a definition that says little: its calls work as soon as somebody does.
// A definition that makes no sense is an error.
func Open(ctx context.Context, b *bus.Bus, name, subject string, cfg Config) (*Tool, error) {
	t := &Tool{bus: b, subject: subject, cfg: cfg.withDefaults()}
	err := t.checkSubject(ctx)
	if err == nil && !tools.IsToken(name) {
		err = errors.New("the name is not of the form " + tools.TokenForm)
	}
	if err == nil {
		t.def, err = t.define(ctx, name)
	}
	if err != nil {
		return nil, fmt.Errorf("remote tool %q at %q: %w", tools.Excerpt(name, 80), tools.Excerpt(subject, 200), err)
	}
	return t, nil
}

// checkSubject refuses subjects whose requests a stream would answer, with an
// acknowledgement that looks like a result.
func (t *Tool) checkSubject(ctx context.Context) error {
	if err := bus.CheckSubject(t.subject); err != nil {
		return err
	}
	if tokens := t.bus.Split(t.subject); tokens != nil && tokens[0] != "rpc" {
		return fmt.Errorf("subjects below %q are taken; use one below %q or elsewhere", t.bus.Prefix(), t.bus.RPC())
	}
	ctx, cancel := context.WithTimeout(ctx, t.cfg.Patience)
	defer cancel()
	stream, err := t.bus.JetStream().StreamNameBySubject(ctx, t.subject)
	switch {
	case err == nil:
		return fmt.Errorf("the stream %q captures the subject and would answer in the tool's place; use another subject", stream)
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		t.cfg.Log.Warn().Err(err).Str("subject", t.subject).Msg("cannot check whether a stream captures the subject of a remote tool")
	}
	return nil
}

// Definition describes the tool.
func (t *Tool) Definition() tools.Definition { return t.def }

// Execute sends the call and waits for the answer.
func (t *Tool) Execute(ctx context.Context, call tools.Call) *tools.Result {
	ctx, cancel := context.WithTimeout(ctx, t.cfg.Timeout)
	defer cancel()
	if deadline, ok := ctx.Deadline(); ok { // the sooner of both
		call.Deadline = deadline.UTC()
	}
	body, err := bus.Encode(call)
	if err != nil {
		return tools.Failure(err)
	}
	msg, err := t.request(ctx, t.subject, body)
	if err != nil {
		return tools.Failure(t.explain(ctx, call.Tool, err))
	}
	return t.result(msg)
}

// request asks once, but as long as nobody is there to be asked, again: then
// nothing happened yet.
func (t *Tool) request(ctx context.Context, subject string, body []byte) (msg *nats.Msg, err error) {
	policy := backoff.NewExponentialBackOff(backoff.WithInitialInterval(50*time.Millisecond),
		backoff.WithMaxInterval(500*time.Millisecond), backoff.WithMaxElapsedTime(t.cfg.Patience))
	err = backoff.Retry(func() error {
		msg, err = t.bus.Conn().RequestMsgWithContext(ctx, &nats.Msg{Subject: subject, Data: body, Header: nats.Header{"content-type": {"application/json"}}})
		if err != nil && !errors.Is(err, nats.ErrNoResponders) {
			return backoff.Permanent(err)
		}
		return err
	}, backoff.WithContext(policy, ctx))
	return msg, err
}

func (t *Tool) explain(ctx context.Context, name string, err error) *tools.Error {
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return tools.Errorf(tools.CodeToolFailed, "%s was not run: nobody serves it at %q at the moment", name, t.subject)
	case errors.Is(err, nats.ErrMaxPayload):
		return tools.Errorf(tools.CodeInvalidArguments, "%s was not run: the arguments are larger than the bus takes (%d bytes)", name, t.bus.Conn().MaxPayload())
	case errors.Is(ctx.Err(), context.Canceled):
		return tools.Errorf(tools.CodeCancelled, "the call of %s was cancelled; it may have acted", name)
	case ctx.Err() != nil, errors.Is(err, nats.ErrTimeout):
		return tools.Errorf(tools.CodeTimeout, "%s gave no answer in time; it may have acted", name)
	}
	return tools.Errorf(tools.CodeToolFailed, "the call of %s failed, and it may have acted: %v", name, tools.Excerpt(strings.ToValidUTF8(err.Error(), "?"), 300))
}
