package rpc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/tracing"
)

// ServiceName is the name of the service in "nats micro ls".
const ServiceName = "stevedore"

const (
	// callTimeout is how long a request waits for the result of its call.
	callTimeout = 10 * time.Minute
	// submitTimeout is how long a request to store a call may take.
	submitTimeout = 40 * time.Second
	// readTimeout bounds every other request.
	readTimeout = 30 * time.Second
	// slotsPerEndpoint is the number of requests that each endpoint handles at once;
	// more wait (see admission).
	slotsPerEndpoint = 1024
)

// Service answers requests. Any number of processes may run one; the server sends
// each request to one of them.
type Service struct {
	bus    *bus.Bus
	reader *offload.Reader
	cfg    ServiceConfig
	name   string
	own    []endpoint

	mu      sync.Mutex
	stopped bool // new requests are rejected
	active  sync.WaitGroup
}

// codeTooLarge is the error code if the answer is larger than the server's limit
// for a message.
const codeTooLarge = "too_large"

// ServiceConfig configures a Service. The zero value works.
type ServiceConfig struct {
	// Version is the semantic version of the program. Default 0.0.0.
	Version string
	// Metadata is shown in "nats micro info", such as the worker's name.
	Metadata map[string]string
	// Stats, if not nil, returns the data for the statistics of the endpoint "call",
	// as "nats micro stats" and requests on $SRV.STATS show them.
	Stats func() any
	// OnReady, if not nil, is called when the service receives requests.
	OnReady func()
	Log     zerolog.Logger
}

// NewService returns a service that is not running yet.
func NewService(b *bus.Bus, reader *offload.Reader, cfg ServiceConfig) *Service {
	cfg.Version = cmp.Or(cfg.Version, "0.0.0")
	if cfg.OnReady == nil {
		cfg.OnReady = func() {}
	}
	return &Service{bus: b, reader: reader, cfg: cfg, name: ServiceName, own: endpoints()}
}

// Run answers requests until ctx ends. It runs once.
func (s *Service) Run(ctx context.Context) error {
	svc, err := micro.AddService(s.bus.Conn(), micro.Config{
		Name: s.name, Version: s.cfg.Version,
		Description: "submit tool calls, read offloaded results, manage tasks, approvals and jobs",
		Metadata:    s.cfg.Metadata, StatsHandler: s.stats,
	})
	if err != nil {
		return fmt.Errorf("start service: %w", err)
	}
	for _, e := range s.own {
		// Each endpoint has its own slots: waiting calls must not block reads.
		slots := newAdmission(slotsPerEndpoint, ctx.Done())
		err := svc.AddEndpoint(e.name, micro.HandlerFunc(func(req micro.Request) { s.serve(ctx, slots, req, e) }), e.options(s.bus)...)
		if err != nil {
			return errors.Join(fmt.Errorf("start service: endpoint %s: %w", e.name, err), svc.Stop())
		}
	}
	if err := s.bus.Conn().Flush(); err != nil { // now the server has the subscriptions
		return errors.Join(fmt.Errorf("start service: %w", err), svc.Stop())
	}
	s.cfg.OnReady()
	<-ctx.Done()
	err = svc.Stop()
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.active.Wait()
	if errors.Is(err, nats.ErrConnectionClosed) {
		return nil
	}
	return err
}

func (s *Service) stats(e *micro.Endpoint) any {
	if s.cfg.Stats == nil || e.Name != callEndpoint {
		return struct{}{}
	}
	return s.cfg.Stats()
}

// errStopping is the answer to requests that wait when the service stops.
var errStopping = tools.Errorf("stopping", "this worker is stopping; send the request again (an accepted call stays queued or running)")

// serve answers one request in its own goroutine, because the library calls the
// handlers one after the other.
func (s *Service) serve(ctx context.Context, slots *admission, req micro.Request, e endpoint) {
	if !s.bus.IsInbox(req.Reply()) {
		s.cfg.Log.Warn().Str("subject", tools.Excerpt(req.Subject(), 200)).Str("reply", tools.Excerpt(req.Reply(), 200)).
			Msg("ignored a request whose reply subject is not an inbox")
		return
	}
	if !s.begin() {
		s.reject(req, errStopping)
		return
	}
	client := clientOf(s.bus.Subjects, req.Subject(), req.Reply())
	err := slots.admit(client, len(req.Data()), func() {
		defer s.active.Done()
		defer slots.release(client)
		answerCtx, cancel := context.WithTimeout(ctx, e.timeout)
		defer cancel()
		v, err := recovered(func() (any, error) {
			if ctx.Err() != nil {
				return nil, errStopping
			}
			return s.answer(answerCtx, e, req)
		})
		if err != nil && ctx.Err() != nil {
			err = errStopping
		}
		if err == nil {
			err = s.respond(req, v)
		}
		if err != nil {
			s.reject(req, err)
		}
	})
	if err != nil {
		s.active.Done()
		s.reject(req, err)
	}
}

// answer runs the operation that a request is for.
func (s *Service) answer(ctx context.Context, e endpoint, req micro.Request) (any, error) {
	tokens := s.bus.Split(req.Subject())[1:]
	op, err := e.find(tokens)
	if err == nil {
		err = op.check(tokens)
	}
	if err != nil {
		return nil, err
	}
	return op.answer(tracing.From(ctx, req.Headers().Get(tracing.Header)), Env{Bus: s.bus, Reader: s.reader, Tokens: tokens}, req.Data())
}

// begin adds a request to those that Run waits for. It returns false if Run has
// stopped: the library may deliver requests after that.
func (s *Service) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.active.Add(1)
	}
	return !s.stopped
}

// recovered turns a panic into an error, so that the other requests and calls of
// this process continue.
func recovered(answer func() (any, error)) (v any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the request panicked: %v", p)
		}
	}()
	return answer()
}

// respond sends v as JSON.
func (s *Service) respond(req micro.Request, v any) error {
	body, err := encodeAnswer(v)
	if err != nil {
		return err
	}
	if limit := int(s.bus.Conn().MaxPayload()); len(body) > limit {
		return tools.Errorf(codeTooLarge, "the answer has %d bytes, but the server accepts at most %d; request less", len(body), limit)
	}
	return s.send(req, &nats.Msg{Data: body})
}

// encodeAnswer returns v as JSON, with its text for models; bytes are JSON already.
func encodeAnswer(v any) ([]byte, error) {
	body, encoded := v.(json.RawMessage)
	if !encoded {
		var err error
		if body, err = bus.Encode(v); err != nil {
			return nil, err
		}
	}
	if t, ok := v.(interface{ Text() string }); ok {
		return withText(body, t.Text())
	}
	return body, nil
}

// send answers a request. It does not use the methods Respond and Error of req:
// they are valid only until the library's handler returns, which it has.
func (s *Service) send(req micro.Request, msg *nats.Msg) error {
	msg.Subject = req.Reply()
	return s.bus.Conn().PublishMsg(msg)
}

// withText adds a field "text" with the text for models to a JSON object.
func withText(object []byte, text string) ([]byte, error) {
	field, err := bus.Encode(text)
	if err != nil {
		return nil, err
	}
	out := append([]byte(`{"text":`), field...)
	if rest := object[1:]; len(rest) > 1 {
		out = append(append(out, ','), rest...)
	} else {
		out = append(out, '}')
	}
	return out, nil
}

// reject answers with an error. The code and the message are in the headers, as the
// service protocol requires, and in the body for clients that ignore headers.
func (s *Service) reject(req micro.Request, err error) {
	code := "failed"
	if e, ok := errors.AsType[*tools.Error](err); ok {
		code = e.Code
	} else {
		s.cfg.Log.Error().Err(err).Str("subject", tools.Excerpt(req.Subject(), 200)).Msg("request failed")
	}
	message := tools.OneLine(err.Error())
	body, encodeErr := bus.Encode(map[string]any{"error": tools.EventError{Code: code, Message: message}})
	if encodeErr == nil {
		encodeErr = s.send(req, &nats.Msg{Data: body, Header: nats.Header{
			micro.ErrorHeader: {tools.Excerpt(message, 1000)}, micro.ErrorCodeHeader: {code},
		}})
	}
	if encodeErr != nil {
		s.cfg.Log.Warn().Err(encodeErr).Msg("cannot answer a request")
	}
}
