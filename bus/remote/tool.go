package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/retry"
	"github.com/stevedore-bus/stevedore/tools/tracing"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

// Config configures remote tools. The zero value works.
type Config struct {
	// Timeout bounds the wait for a response. Default 5 minutes.
	Timeout time.Duration
	// RetryTimeout is how long a request is retried while no process serves the
	// subject. Default 3 seconds.
	RetryTimeout time.Duration
	// ReconnectGrace is how long the response of a tool that may run again is awaited, at
	// least, after the connection was lost, and the response perhaps with it. Default 10 seconds.
	ReconnectGrace time.Duration
	// MaxResult is the maximum size of a response, in bytes; the server's
	// max_payload also bounds it. Default 8 MiB.
	MaxResult int
	Log       zerolog.Logger
}

func (c Config) withDefaults() Config {
	c.Timeout = cmp.Or(max(c.Timeout, 0), 5*time.Minute)
	c.RetryTimeout = cmp.Or(max(c.RetryTimeout, 0), 3*time.Second)
	c.ReconnectGrace = cmp.Or(max(c.ReconnectGrace, 0), 10*time.Second)
	c.MaxResult = cmp.Or(max(c.MaxResult, 0), 8<<20)
	return c
}

// Tool is a tool that other processes serve on a subject.
type Tool struct {
	bus     *bus.Bus
	subject string
	cfg     Config
	def     tools.Definition
	served  bool // a process has sent the definition
}

// Open requests the definition of the tool on subject and returns the tool with the
// given name. If no process serves the subject, the tool has a default definition,
// and its calls fail until a process does. An invalid definition is an error.
func Open(ctx context.Context, b *bus.Bus, name, subject string, cfg Config) (*Tool, error) {
	t := &Tool{bus: b, subject: subject, cfg: cfg.withDefaults()}
	err := t.checkSubject(ctx)
	if err == nil && !tools.IsToken(name) {
		err = errors.New("the name is not of the form " + tools.TokenForm)
	}
	if err == nil {
		t.def, t.served, err = t.readDefinition(ctx, name)
	}
	if err != nil {
		return nil, fmt.Errorf("remote tool %q at %q: %w", tools.Excerpt(name, 80), tools.Excerpt(subject, 200), err)
	}
	if !t.served {
		t.cfg.Log.Warn().Str("tool", name).Str("subject", subject).Msg("no process responds for the remote tool; models see it without " +
			"description and schema until one does")
	}
	return t, nil
}

// awaitInterval is the pause between two requests for a missing definition.
const awaitInterval = 2 * time.Second

// Await returns the tool with its definition when a process serves it, or nil if the tool
// has its definition already or ctx ends. An invalid definition is logged, and requested
// again.
func (t *Tool) Await(ctx context.Context) *Tool {
	for last := ""; !t.served; {
		if tools.Sleep(ctx, awaitInterval) != nil {
			return nil
		}
		def, ok, err := t.readDefinition(ctx, t.def.Name)
		if err != nil || !ok {
			trouble.Report(ctx, trouble.RemoteTool, t.def.Name, cmp.Or(err, t.unserved(t.def.Name)))
		}
		if err != nil && err.Error() != last && ctx.Err() == nil {
			last = err.Error()
			t.cfg.Log.Error().Err(err).Str("tool", t.def.Name).Str("subject", t.subject).Msg("cannot use the definition of a remote tool")
		}
		if ok {
			trouble.Report(ctx, trouble.RemoteTool, t.def.Name, nil)
			t.cfg.Log.Info().Str("tool", def.Name).Str("subject", t.subject).Msg("a process serves the remote tool now")
			return &Tool{bus: t.bus, subject: t.subject, cfg: t.cfg, def: def, served: true}
		}
	}
	return nil
}

// checkSubject refuses subjects that a stream captures. The stream's ack would look
// like a result.
func (t *Tool) checkSubject(ctx context.Context) error {
	if err := bus.CheckSubject(t.subject); err != nil {
		return err
	}
	if tokens := t.bus.Split(t.subject); tokens != nil && tokens[0] != "rpc" {
		return fmt.Errorf("subjects below %q are reserved; use one below %q or another prefix", t.bus.Prefix(), t.bus.RPC())
	}
	ctx, cancel := context.WithTimeout(ctx, t.cfg.RetryTimeout)
	defer cancel()
	stream, err := t.bus.JetStream().StreamNameBySubject(ctx, t.subject)
	switch {
	case err == nil:
		return fmt.Errorf("the stream %q captures the subject and would respond before the tool; use another subject", stream)
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		t.cfg.Log.Warn().Err(err).Str("subject", t.subject).Msg("cannot check whether a stream captures the subject of a remote tool")
	}
	return nil
}

// Definition returns the definition of the tool.
func (t *Tool) Definition() tools.Definition { return t.def }

// Execute sends the call and waits for the response.
func (t *Tool) Execute(ctx context.Context, call tools.Call) *tools.Result {
	ctx, cancel := context.WithTimeout(ctx, t.cfg.Timeout)
	defer cancel()
	if deadline, ok := ctx.Deadline(); ok { // the earlier of both
		call.Deadline = deadline.UTC()
	}
	body, err := bus.Encode(call)
	if err != nil {
		return tools.Failure(err)
	}
	reconnects := t.bus.Conn().Stats().Reconnects
	lost := func() bool { return !t.bus.Conn().IsConnected() || t.bus.Conn().Stats().Reconnects != reconnects }
	waitCtx, stop := ctx, func() {}
	if t.def.Effect != tools.Once {
		waitCtx, stop = t.endIfLost(ctx, lost)
	}
	msg, err := t.request(waitCtx, t.subject, body)
	stop()
	if err == nil {
		trouble.Report(ctx, trouble.RemoteTool, t.def.Name, nil)
		return t.result(msg)
	}
	failure := t.failure(ctx, call.Tool, err)
	if errors.Is(err, nats.ErrNoResponders) {
		trouble.Report(ctx, trouble.RemoteTool, t.def.Name, failure)
	}
	if lost() && !errors.Is(err, nats.ErrNoResponders) && !errors.Is(ctx.Err(), context.Canceled) {
		failure = fmt.Errorf("%w: %w", tools.ErrInterrupted, failure)
	}
	return tools.Failure(failure)
}

// endIfLost returns a context that ends some time after the connection was lost. A server that
// restarts drops responses, and nothing would say so until the timeout.
func (t *Tool) endIfLost(ctx context.Context, lost func() bool) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ended := false; !ended && tools.Sleep(ctx, t.cfg.ReconnectGrace) == nil; {
			ended = lost()
		}
		if tools.Sleep(ctx, t.cfg.ReconnectGrace) == nil {
			cancel()
		}
	}()
	return ctx, func() { cancel(); <-done }
}

// request sends a request. It retries only while no process serves the subject,
// since then no tool has acted.
func (t *Tool) request(ctx context.Context, subject string, body []byte) (msg *nats.Msg, err error) {
	header := nats.Header{"content-type": {"application/json"}}
	tracing.Add(ctx, header)
	served := func(err error) bool { return !errors.Is(err, nats.ErrNoResponders) }
	pauses := retry.Pauses(50*time.Millisecond, 500*time.Millisecond, t.cfg.RetryTimeout)
	err = retry.Do(ctx, pauses, served, nil, func() (err error) {
		msg, err = t.bus.Conn().RequestMsgWithContext(ctx, &nats.Msg{Subject: subject, Data: body, Header: header})
		return err
	})
	return msg, err
}

func (t *Tool) unserved(name string) error {
	return tools.Errorf(tools.CodeToolFailed, "%s was not run: no process serves it on %q", name, t.subject)
}

func (t *Tool) failure(ctx context.Context, name string, err error) error {
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return t.unserved(name)
	case errors.Is(err, nats.ErrMaxPayload):
		return tools.Errorf(tools.CodeInvalidArguments, "%s was not run: the arguments are larger than the limit of the bus (%d bytes)",
			name, t.bus.Conn().MaxPayload())
	case errors.Is(ctx.Err(), context.Canceled):
		return tools.Errorf(tools.CodeCancelled, "the call of %s was cancelled; it may have acted", name)
	case ctx.Err() != nil, errors.Is(err, nats.ErrTimeout):
		return tools.Errorf(tools.CodeTimeout, "%s did not respond in time; it may have acted", name)
	}
	return tools.Errorf(tools.CodeToolFailed, "the call of %s failed, and it may have acted: %v", name, tools.Excerpt(strings.ToValidUTF8(err.Error(), "?"), 300))
}
