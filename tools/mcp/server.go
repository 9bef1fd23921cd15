package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/mcp/command"
	"github.com/stevedore-bus/stevedore/tools/mcp/wrap"
)

// Config describes a server: either Argv or URL is required.
type Config struct {
	// Name is a token, with which the names of the tools begin.
	Name string
	// Argv is the command of a server on stdin and stdout. Env is added to the
	// variables of command.Environment. Dir is its working directory.
	Argv []string
	Env  []string
	Dir  string
	// URL is the address of a server over HTTP, and Header is added to each request.
	URL    string
	Header map[string]string
	// Prepare may change the command, for instance to run it in a sandbox.
	Prepare func(*exec.Cmd) error
	// Stderr receives what the command writes to its standard error.
	Stderr io.Writer
	// Timeout is how long the server may take to start and to list its tools. Default
	// 1 minute, because a package runner may download the server first.
	Timeout time.Duration
	// Changed is called with all tools of the server when they are known, and again
	// when they change.
	Changed func([]tools.Tool)
	Log     zerolog.Logger
}

// Server is a connection to another MCP server. It is safe for concurrent use.
type Server struct {
	cfg     Config
	relist  chan struct{}
	watched sync.Map // progress token -> context of the call
	ctx     context.Context
	cancel  context.CancelFunc

	mu      sync.Mutex
	running *running      // nil while there is no connection
	start   chan struct{} // closed at the end of the start that runs; nil if none runs
	policy  backoff.BackOff
	retryAt time.Time // no earlier start after a failure
	cause   error     // of the last failure
}

// running is a session with a server.
type running struct {
	*mcp.ClientSession
	*connection
}

// New returns a server that is not connected yet.
func New(cfg Config) *Server {
	if cfg.Timeout <= 0 {
		cfg.Timeout = time.Minute
	}
	s := &Server{cfg: cfg, relist: make(chan struct{}, 1), policy: newPolicy()}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

func newPolicy() backoff.BackOff {
	return backoff.NewExponentialBackOff(backoff.WithInitialInterval(200*time.Millisecond), backoff.WithMaxInterval(time.Minute), backoff.WithMaxElapsedTime(0))
}

// calm is how long a server's tools must stay the same until a change is listed soon again. A
// server that changes them all the time is asked at longer and longer intervals.
const calm = 2 * time.Minute

// Run lists the tools of the server, and again when the server says that they changed
// or after a restart, until ctx ends. Then it ends the connection.
func (s *Server) Run(ctx context.Context) error {
	defer s.close()
	s.changed()
	failures, changes := newPolicy(), newPolicy()
	var listed time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.relist:
		}
		list, err := s.list(ctx)
		var pause time.Duration
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			s.cfg.Log.Info().Str("server", s.cfg.Name).Int("tools", len(list)).Msg("tools of the MCP server listed")
			s.cfg.Changed(list)
			failures.Reset()
			if time.Since(listed) > calm {
				changes.Reset()
			}
			listed, pause = time.Now(), changes.NextBackOff()
		default:
			s.cfg.Log.Warn().Str("server", s.cfg.Name).Str("error", err.Error()).Msg("cannot list the tools of the MCP server; trying again")
			s.changed()
			pause = max(s.pause(), failures.NextBackOff())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// changed makes Run list the tools.
func (s *Server) changed() {
	select {
	case s.relist <- struct{}{}:
	default:
	}
}

// maxTools is the most tools of a server.
const maxTools = 2000

func (s *Server) list(ctx context.Context) ([]tools.Tool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	session, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	if result := session.InitializeResult(); result != nil && result.Capabilities != nil && result.Capabilities.Tools == nil {
		return nil, nil // it has none, and would refuse the request
	}
	var list []tools.Tool
	names := map[string]bool{}
	for t, err := range session.Tools(ctx, nil) {
		if err != nil {
			return nil, s.listFailed(ctx, session, err)
		}
		if len(list) == maxTools {
			s.cfg.Log.Warn().Str("server", s.cfg.Name).Int("limit", maxTools).Msg("the MCP server has too many tools; the others are left out")
			break
		}
		tool := s.newTool(t)
		if names[tool.def.Name] {
			s.cfg.Log.Warn().Str("server", s.cfg.Name).Str("tool", tool.def.Name).Msg("the MCP server has two tools of this name; the second one is left out")
			continue
		}
		names[tool.def.Name] = true
		list = append(list, tool)
	}
	return list, nil
}

// listFailed returns why the tools cannot be listed. A server that answers with an
// error works, and so does one that is busy with calls.
func (s *Server) listFailed(ctx context.Context, session *running, err error) error {
	if e, ok := answered(err); ok {
		return fmt.Errorf("the MCP server %s refused to list its tools: %w", s.cfg.Name, s.redact(errors.New(e.Message)))
	}
	if ctx.Err() == nil {
		return s.lost(session, err)
	}
	calls := 0
	s.watched.Range(func(any, any) bool { calls++; return true })
	if calls == 0 {
		return s.lost(session, fmt.Errorf("it did not list its tools within %s", s.cfg.Timeout))
	}
	return fmt.Errorf("the MCP server %s did not list its tools within %s", s.cfg.Name, s.cfg.Timeout)
}

// answered returns the error with which a server answered a request.
func answered(err error) (*jsonrpc.Error, bool) {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	return e, ok && !errors.Is(err, mcp.ErrConnectionClosed)
}

// connect returns the connection. It starts the server if there is none; all callers
// wait for the same start. After a failure it fails until the pause is over.
func (s *Server) connect(ctx context.Context) (*running, error) {
	s.mu.Lock()
	switch {
	case s.running != nil:
		defer s.mu.Unlock()
		return s.running, nil
	case s.ctx.Err() != nil:
		defer s.mu.Unlock()
		return nil, errors.New("this worker stops")
	case s.start == nil && time.Now().Before(s.retryAt):
		defer s.mu.Unlock()
		return nil, fmt.Errorf("the MCP server %s is not running: %w; the next start is in %s", s.cfg.Name, s.cause, time.Until(s.retryAt).Round(100*time.Millisecond))
	case s.start == nil:
		s.start = make(chan struct{})
		go s.begin(s.start)
	}
	start := s.start
	s.mu.Unlock()
	select {
	case <-start:
	case <-ctx.Done():
		return nil, fmt.Errorf("the MCP server %s has not started yet: %w", s.cfg.Name, ctx.Err())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		return nil, fmt.Errorf("the MCP server %s does not start: %w", s.cfg.Name, s.cause)
	}
	return s.running, nil
}

// begin starts the server. A caller that gives up does not end the start.
func (s *Server) begin(start chan struct{}) {
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.Timeout)
	defer cancel()
	session, err := s.open(ctx)
	if err != nil && ctx.Err() != nil && s.ctx.Err() == nil {
		err = fmt.Errorf("it did not answer within %s", s.cfg.Timeout)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start = nil
	close(start)
	if err != nil {
		s.failLocked(err)
		return
	}
	s.running = session
	go func() { // ends with the session
		_ = session.Wait()
		s.lost(session, errors.New("the connection ended"))
	}()
}

const (
	// Since this revision a server tells only clients that subscribe that its tools
	// changed. The SDK subscribes, and does not wait until the server knows it: if the
	// tools were listed before that, a change in between would remain unknown.
	subscribes = "2026-07-28"
	// acknowledged is the server's first message after a subscription.
	acknowledged        = "notifications/subscriptions/acknowledged"
	subscriptionTimeout = 5 * time.Second
)

// open starts the server and opens an MCP session.
func (s *Server) open(ctx context.Context) (*running, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "stevedore", Version: "1"}, &mcp.ClientOptions{
		Capabilities:                &mcp.ClientCapabilities{}, // no roots, and nobody to answer questions
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { s.changed() },
		ProgressNotificationHandler: s.progress,
	})
	subscribed := make(chan struct{})
	client.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		end := sync.OnceFunc(func() { close(subscribed) })
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == acknowledged {
				end()
			}
			return next(ctx, method, req)
		}
	})
	link, err := s.link()
	if err != nil {
		return nil, err
	}
	c := &connection{link: link, note: func(what string) {
		s.cfg.Log.Debug().Str("server", s.cfg.Name).Str("error", tools.EscapeLine(tools.Excerpt(what, 300))).Msg("a message of the MCP server is dropped")
	}}
	session, err := client.Connect(ctx, c, nil)
	if err != nil {
		if e, ok := answered(err); ok {
			err = errors.New(e.Message)
		} else {
			err = c.endedBy(err)
		}
		link.Close()
		return nil, err
	}
	if r := session.InitializeResult(); r != nil && r.ProtocolVersion >= subscribes && r.Capabilities != nil && r.Capabilities.Tools != nil && r.Capabilities.Tools.ListChanged {
		select { // the server may never say it
		case <-subscribed:
		case <-time.After(subscriptionTimeout):
		case <-ctx.Done():
		}
	}
	return &running{session, c}, nil
}

func (s *Server) link() (wrap.Link, error) {
	if s.cfg.URL != "" {
		header := http.Header{}
		for name, value := range s.cfg.Header {
			header.Set(name, value)
		}
		return wrap.NewHTTP(s.cfg.URL, header, "--mcp-header "+s.cfg.Name+".Authorization"), nil
	}
	process, err := command.Start(command.Config{Argv: s.cfg.Argv, Dir: s.cfg.Dir, Env: command.Environment(s.cfg.Env...), Stderr: s.cfg.Stderr, Prepare: s.cfg.Prepare})
	if err != nil {
		return nil, err
	}
	return wrap.NewProgram(process), nil
}

// lost forgets a connection that failed, and returns why, with the name of the server.
// The next call starts the server again.
func (s *Server) lost(session *running, err error) error {
	session.link.Close() // then it says how the process ended
	_ = session.Wait()
	go func() { _ = session.ClientSession.Close() }() // ends what the SDK runs for it
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == session {
		s.running = nil
		s.failLocked(session.endedBy(err))
		if s.ctx.Err() == nil {
			s.changed()
		}
	}
	return fmt.Errorf("the MCP server %s ended: %w", s.cfg.Name, s.redact(session.endedBy(err)))
}

func (s *Server) failLocked(err error) {
	s.cause = s.redact(err)
	s.retryAt = time.Now().Add(s.policy.NextBackOff())
}

// redact removes the URL, which may contain a secret, and what the header contains.
func (s *Server) redact(err error) error {
	text := err.Error()
	secrets := []string{s.cfg.URL}
	for _, value := range s.cfg.Header {
		secrets = append(secrets, value)
	}
	for _, variable := range s.cfg.Env {
		_, value, _ := strings.Cut(variable, "=")
		secrets = append(secrets, value)
	}
	for _, secret := range secrets {
		if len(secret) >= 4 {
			text = strings.ReplaceAll(text, secret, "xxxxx")
		}
	}
	return errors.New(tools.OneLine(tools.Excerpt(text, 600)))
}

func (s *Server) pause() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(time.Until(s.retryAt), 10*time.Millisecond)
}

// worked resets the pause between starts.
func (s *Server) worked() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.policy.Reset()
}

func (s *Server) close() {
	s.cancel() // connect begins no start after this
	s.mu.Lock()
	start := s.start
	s.mu.Unlock()
	if start != nil {
		<-start
	}
	s.mu.Lock()
	session := s.running
	s.running = nil
	s.mu.Unlock()
	if session != nil {
		session.link.Close()
		_ = session.Wait()
	}
}
