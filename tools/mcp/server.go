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
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/mcp/command"
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

	mu      sync.Mutex
	session *mcp.ClientSession // nil while there is no connection
	process *command.Process
	policy  backoff.BackOff
	retryAt time.Time // no earlier start after a failure
	cause   error     // of the last failure
	ended   bool
}

// New returns a server that is not connected yet.
func New(cfg Config) *Server {
	if cfg.Timeout <= 0 {
		cfg.Timeout = time.Minute
	}
	return &Server{cfg: cfg, relist: make(chan struct{}, 1), policy: newPolicy()}
}

func newPolicy() backoff.BackOff {
	return backoff.NewExponentialBackOff(backoff.WithInitialInterval(200*time.Millisecond), backoff.WithMaxInterval(time.Minute), backoff.WithMaxElapsedTime(0))
}

// Run lists the tools of the server, and again when the server says that they changed
// or after a restart, until ctx ends. Then it ends the connection.
func (s *Server) Run(ctx context.Context) error {
	defer s.close()
	s.changed()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.relist:
		}
		list, err := s.list(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			s.cfg.Log.Info().Str("server", s.cfg.Name).Int("tools", len(list)).Msg("tools of the MCP server listed")
			s.cfg.Changed(list)
			continue
		}
		s.cfg.Log.Warn().Str("server", s.cfg.Name).Str("error", err.Error()).Msg("cannot list the tools of the MCP server; trying again")
		s.changed()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(s.pause()):
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
	var list []tools.Tool
	names := map[string]bool{}
	for t, err := range session.Tools(ctx, nil) {
		if err != nil {
			return nil, s.lost(session, err)
		}
		if len(list) == maxTools {
			return nil, fmt.Errorf("the MCP server %s has more than %d tools", s.cfg.Name, maxTools)
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

// connect returns the connection, and starts the server if there is none. After a
// failure it fails until the pause is over.
func (s *Server) connect(ctx context.Context) (*mcp.ClientSession, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.session != nil:
		return s.session, nil
	case s.ended:
		return nil, errors.New("this worker stops")
	case time.Now().Before(s.retryAt):
		return nil, fmt.Errorf("the MCP server %s is not running: %w; the next start is in %s", s.cfg.Name, s.cause, time.Until(s.retryAt).Round(100*time.Millisecond))
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	session, process, err := s.open(ctx)
	if err != nil {
		s.failLocked(err)
		return nil, fmt.Errorf("the MCP server %s does not start: %w", s.cfg.Name, s.cause)
	}
	s.session, s.process = session, process
	go func() { // ends with the session
		_ = session.Wait()
		s.lost(session, errors.New("the connection ended"))
	}()
	return session, nil
}

// open starts the server and opens an MCP session.
func (s *Server) open(ctx context.Context) (*mcp.ClientSession, *command.Process, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "stevedore", Version: "1"}, &mcp.ClientOptions{
		Capabilities:                &mcp.ClientCapabilities{}, // no roots, and nobody to answer questions
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { s.changed() },
		ProgressNotificationHandler: s.progress,
	})
	if s.cfg.URL != "" {
		session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: s.cfg.URL, HTTPClient: s.httpClient(), MaxEventSize: -1}, nil)
		return session, nil, err
	}
	process, err := command.Start(command.Config{Argv: s.cfg.Argv, Dir: s.cfg.Dir, Env: command.Environment(s.cfg.Env...), Stderr: s.cfg.Stderr, Prepare: s.cfg.Prepare})
	if err != nil {
		return nil, nil, err
	}
	session, err := client.Connect(ctx, &mcp.IOTransport{Reader: io.NopCloser(process.Stdout), Writer: process.Stdin, MaxLineLength: -1}, nil)
	if err != nil {
		select {
		case <-process.Done():
			err = process.Err()
		default:
			process.Close()
		}
		return nil, nil, err
	}
	return session, process, nil
}

// httpClient sends the header to the server only.
func (s *Server) httpClient() *http.Client {
	return &http.Client{
		Transport: headers(s.cfg.Header),
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if r.URL.Host != via[0].URL.Host || r.URL.Scheme != via[0].URL.Scheme {
				return errors.New("the server redirects to another server")
			}
			if len(via) > 5 {
				return errors.New("too many redirects")
			}
			return nil
		},
	}
}

type headers map[string]string

func (h headers) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range h {
		r.Header.Set(name, value)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// lost forgets a connection that failed, and returns why, with the name of the server.
// The next call starts the server again.
func (s *Server) lost(session *mcp.ClientSession, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == session {
		process := s.process
		s.session, s.process = nil, nil
		go session.Close() // may wait for a server that hangs
		if process != nil {
			process.Close()
			err = process.Err()
		}
		s.failLocked(err)
		if !s.ended {
			s.changed()
		}
	} else if s.cause != nil { // found out by another call
		err = s.cause
	}
	return fmt.Errorf("the MCP server %s ended: %w", s.cfg.Name, s.redact(err))
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
	s.mu.Lock()
	session, process := s.session, s.process
	s.session, s.process, s.ended = nil, nil, true
	s.mu.Unlock()
	if process != nil {
		process.Close()
	}
	if session != nil {
		_ = session.Close()
	}
}
