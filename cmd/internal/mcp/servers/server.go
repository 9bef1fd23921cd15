package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/command"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wrap"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/retry"
	"github.com/stevedore-bus/stevedore/tools/sandbox"
	"github.com/stevedore-bus/stevedore/tools/trouble"
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
	// Credential names what sets the credential in Header, for errors.
	Credential string
	// Sandbox confines the command; nil means that it has all rights of this process.
	Sandbox *sandbox.Sandbox
	// Timeout is how long the server may take to start and to list its tools. Default
	// 1 minute, because a package runner may download the server first.
	Timeout time.Duration
	// Changed is called with all tools of the server when they are known, and again
	// when they change.
	Changed func([]tools.Tool)
	Log     zerolog.Logger
}

// settledAfter is how long a server's tools must stay the same until a change is listed soon again. A
// server that changes them all the time is asked at longer and longer intervals.
const settledAfter = 2 * time.Minute

// Server is another MCP server behind a proxy of package wrap, which starts the server
// again if it ends, and repeats a call only if the tool allows it. It is safe for
// concurrent use.
type Server struct {
	cfg     Config
	relist  chan struct{}
	watched sync.Map                          // progress token -> *calling
	session atomic.Pointer[mcp.ClientSession] // nil before the first start
	current atomic.Pointer[redacting]         // the link
	dropped atomic.Int64                      // what the server wrote that is not a message
}

// New returns a server that is not connected yet.
func New(cfg Config) *Server {
	cfg.Timeout = cmp.Or(max(cfg.Timeout, 0), time.Minute)
	return &Server{cfg: cfg, relist: make(chan struct{}, 1)}
}

func newPolicy() backoff.BackOff { return retry.Pauses(200*time.Millisecond, time.Minute, 0) }

// Run lists the tools of the server, and again when the server says that they changed,
// until ctx ends. Then it ends the server.
func (s *Server) Run(ctx context.Context) error {
	for policy := newPolicy(); ; {
		err := s.serve(ctx)
		if ctx.Err() != nil {
			return nil
		}
		err = s.redact(err)
		trouble.Report(ctx, trouble.MCPServer, s.cfg.Name, err)
		s.cfg.Log.Warn().Str("server", s.cfg.Name).Err(err).Msg("cannot start the MCP server; trying again")
		if tools.Sleep(ctx, policy.NextBackOff()) != nil {
			return nil
		}
	}
}

// callTimeout is how long a call may take without progress. The worker has limits of its
// own.
const callTimeout = 24 * time.Hour

// serve keeps the list of tools up to date until ctx ends, or until the server cannot be
// started.
func (s *Server) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var first sync.Once // either it is slow, or it has listed its tools
	slow := time.AfterFunc(s.cfg.Timeout/6, func() {
		first.Do(func() {
			trouble.Report(ctx, trouble.MCPServer, s.cfg.Name, fmt.Errorf("it has not answered within %s of its start, and has until %s; "+
				"a package runner may still load it", s.cfg.Timeout/6, s.cfg.Timeout))
		})
	})
	defer slow.Stop()
	near, far := wrap.Pipe()
	ended := make(chan struct{})
	var cause error
	go func() {
		defer close(ended)
		defer far.Close()
		cause = wrap.Run(ctx, far, wrap.Config{Name: s.cfg.Name, Server: s.link, CallTimeout: callTimeout, StartTimeout: s.cfg.Timeout, Log: s.cfg.Log})
	}()
	defer func() { cancel(); <-ended }()
	session, err := s.open(ctx, near)
	if err != nil {
		if _, ok := answered(err); ok {
			return err
		}
		if cancel(); errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("it did not answer within %s", s.cfg.Timeout)
		}
		if <-ended; cause != nil {
			err = cause
		}
		return fmt.Errorf("the MCP server %s does not start: %w", s.cfg.Name, err)
	}
	defer func() { cancel(); <-ended; _ = session.Close() }()
	s.session.Store(session)
	s.changed()
	var listed time.Time
	failures, changes := newPolicy(), newPolicy()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ended:
			return fmt.Errorf("the MCP server %s ended: %w", s.cfg.Name, cause)
		case <-s.relist:
		}
		list, err := s.list(ctx, session)
		var pause time.Duration
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			s.cfg.Log.Info().Str("server", s.cfg.Name).Int("tools", len(list)).Msg("tools of the MCP server listed")
			s.cfg.Changed(list)
			first.Do(func() {})
			trouble.Report(ctx, trouble.MCPServer, s.cfg.Name, nil)
			failures.Reset()
			if time.Since(listed) > settledAfter {
				changes.Reset()
			}
			listed, pause = time.Now(), changes.NextBackOff()
		default:
			err = s.redact(err)
			trouble.Report(ctx, trouble.MCPServer, s.cfg.Name, err)
			s.cfg.Log.Warn().Str("server", s.cfg.Name).Err(err).Msg("cannot list the tools of the MCP server; trying again")
			s.changed()
			pause = failures.NextBackOff()
		}
		if tools.Sleep(ctx, pause) != nil {
			return nil
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

func (s *Server) list(ctx context.Context, session *mcp.ClientSession) ([]tools.Tool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	if result := session.InitializeResult(); result != nil && result.Capabilities != nil && result.Capabilities.Tools == nil {
		return nil, nil // it has none, and would refuse the request
	}
	var list []tools.Tool
	names, repeated := map[string]bool{}, 0 // a hostile server repeats its tools without end
	params := &mcp.ListToolsParams{}
	for range maxTools { // pages, which may be empty
		page, err := session.ListTools(ctx, params)
		if err != nil {
			return nil, err
		}
		for _, t := range page.Tools {
			if len(list)+repeated == maxTools {
				s.cfg.Log.Warn().Str("server", s.cfg.Name).Int("limit", maxTools).Msg("the MCP server has too many tools; the others are left out")
				return list, nil
			}
			tool := s.newTool(t)
			if names[tool.def.Name] {
				if repeated++; repeated == 1 {
					s.cfg.Log.Warn().Str("server", s.cfg.Name).Str("tool", tool.def.Name).
						Msg("the MCP server has two tools of this name; the second one is left out, and so is each other one that repeats a name")
				}
				continue
			}
			names[tool.def.Name] = true
			list = append(list, tool)
		}
		if params.Cursor = page.NextCursor; params.Cursor == "" {
			return list, nil
		}
	}
	return nil, fmt.Errorf("its list of tools does not end: it has more than %d pages", maxTools)
}

// answered returns the error with which a server answered a request.
func answered(err error) (*jsonrpc.Error, bool) {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	return e, ok && !errors.Is(err, mcp.ErrConnectionClosed)
}

const (
	// acknowledged is the server's first message after a subscription. The SDK does not wait for it: if the
	// tools were listed before that, a change in between would remain unknown.
	acknowledged        = "notifications/subscriptions/acknowledged"
	subscriptionTimeout = 5 * time.Second
)

// open opens an MCP session.
func (s *Server) open(ctx context.Context, link wrap.Link) (*mcp.ClientSession, error) {
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
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	session, err := client.Connect(ctx, wrap.Transport{Link: link}, nil)
	if err != nil {
		return nil, err
	}
	if r := session.InitializeResult(); r != nil && r.ProtocolVersion >= wire.Stateless && r.Capabilities != nil &&
		r.Capabilities.Tools != nil && r.Capabilities.Tools.ListChanged {
		select { // the server may never say it
		case <-subscribed:
		case <-time.After(subscriptionTimeout):
		case <-ctx.Done():
		}
	}
	return session, nil
}

// link starts the server, or connects to it. Its errors contain no secrets.
func (s *Server) link(context.Context) (wrap.Link, error) {
	if s.cfg.URL != "" {
		header := http.Header{}
		for name, value := range s.cfg.Header {
			header.Set(name, value)
		}
		return s.redacting(wrap.NewHTTP(s.cfg.URL, header, s.cfg.Credential)), nil
	}
	program, err := wrap.StartProgram(command.Config{Argv: s.cfg.Argv, Dir: s.cfg.Dir, Env: command.Environment(s.cfg.Env...), Sandbox: s.cfg.Sandbox})
	if err != nil {
		return nil, err
	}
	return s.redacting(program), nil
}

func (s *Server) redacting(link wrap.Link) *redacting {
	l := &redacting{link, s}
	s.current.Store(l)
	return l
}

// redacting is a link whose errors contain no secrets.
type redacting struct {
	wrap.Link
	server *Server
}

func (l *redacting) Receive() (*wire.Message, error) {
	m, err := l.Link.Receive()
	if _, ok := errors.AsType[*wire.SyntaxError](err); ok {
		l.server.dropped.Add(1)
	}
	if failed, ok := errors.AsType[*wrap.RequestError](err); ok {
		failed.Err = l.server.redact(failed.Err)
	} else if err != nil && m == nil && !wire.IsOfOneMessage(err) {
		err = l.server.redact(err)
	}
	return m, err
}

// redact removes the URL, which may contain a secret, and what the header contains.
func (s *Server) redact(err error) error {
	secrets := []string{s.cfg.URL}
	for _, value := range s.cfg.Header {
		secrets = append(secrets, value)
	}
	for _, variable := range s.cfg.Env {
		_, value, _ := strings.Cut(variable, "=")
		secrets = append(secrets, value)
	}
	return errors.New(tools.OneLine(tools.Excerpt(tools.Redact(err.Error(), secrets...), 600)))
}
