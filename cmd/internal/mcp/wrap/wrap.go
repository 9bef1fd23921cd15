// Package wrap puts a proxy in front of any MCP server. The proxy passes all messages
// on as they are, except for big results: it stores these as artifacts, replaces them
// by references, and adds the tool that reads artifacts.
//
// The proxy works on JSON-RPC messages and not on an MCP session of its own. What it
// does not know (later revisions, extensions, fields of one server) passes unchanged,
// and both sides negotiate the revision with each other.
//
//	proxy      the session of a client, and how its requests and answers pass
//	client     what the client sends, and what the proxy answers itself
//	server     the process of the server, and its restart
//	answer     what the server sends
//	toollist   the server's tools, and the tools that the proxy adds
//	host       what depends on the host of the client; late adds tools to its list later
//	call       the result of a tool without its big parts; shrink those of resources
//	shorten    structured content that is short and fits its schema; structured tells whether the texts repeat it
//	echo       a server that returns the results which a program gives it
//	http       a server at a URL; routing has the headers of its requests
//	transport  a Link for the SDK
//	handler    clients over HTTP; served is the session of one
//	background calls that go on after their answer
//	count      what results and pages cost, in characters
package wrap

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/command"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/hosts"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// Link carries messages to and from a client or a server.
type Link interface {
	// Send sends a message. It is called by one goroutine at a time.
	Send(*wire.Message) error
	// Receive returns the next message. A *wire.SyntaxError, a *wire.SizeError or a
	// *RequestError concerns one message only; any other error ends the link.
	Receive() (*wire.Message, error)
	// Close ends the link, and the server's process if there is one. It may be called
	// twice, and while Receive runs.
	Close()
}

// Config describes a proxy. Server is required, and so are Store and Session, unless the
// proxy only keeps the server running.
type Config struct {
	// Server starts the server, or connects to it. ErrPermanent in its error means
	// that another try is of no use.
	Server func(context.Context) (Link, error)
	// Name names the server in errors.
	Name string
	// Store contains the artifacts, in the session Session. Without a store, all results pass as they
	// are, and there are no reading tools.
	Store   offload.Store
	Session string
	// Offload decides which results are big. A text is replaced if it has more than
	// Offload.Threshold tokens and at least Offload.InlineChars characters. If both are 0, the
	// host of the client decides.
	Offload offload.Config
	// Family offers the client all tools that read artifacts instead of artifacts.ReadResult.
	Family bool
	// LateTools adds the tools only after the first result was stored, for a host that follows
	// changes of the list, and none for a host whose model can read results without. The results
	// of an earlier process of the session are then not readable before.
	LateTools bool
	// ReadCommand is the shell command that reads a result of the session when an id and flags
	// follow. Without it, each host gets a tool.
	ReadCommand string
	Reader      offload.ReaderConfig
	// ContentIDs derives the ids of artifacts from their content. A client that gives the same
	// result again, as to build its prompt anew, then gets the same reference.
	ContentIDs bool
	// CallTimeout is how long the server may send neither the response nor progress
	// for a request. Default 10 minutes.
	CallTimeout time.Duration
	// BackgroundAfter, if not 0, is how long a call of a tool may run until the client gets the id
	// of an artifact, with which it waits for the result. Many hosts give up a call after 60 s.
	BackgroundAfter time.Duration
	// StartTimeout is how long requests wait for a server that does not start.
	// Default 30 seconds.
	StartTimeout time.Duration
	session      string // the token of Session
	// jobs are the calls in the background, by session and artifact. Sessions of HTTP clients with
	// the same identity share them.
	jobs *sync.Map
	// Count, if not nil, is told what each result was and what the client got of it.
	Count func(Count)
	Log   zerolog.Logger
}

// ErrPermanent means that a server can never be started.
var ErrPermanent = errors.New("the MCP server cannot be started")

// drainTime is how long a client that has closed its side gets answers. Hosts that do not want to wait send SIGTERM,
// which ends ctx.
const drainTime = time.Minute

// Run runs the proxy between a client and the server until the client closes its link
// or ctx ends. Then it ends the server.
func Run(ctx context.Context, client Link, cfg Config) error {
	p, err := newProxy(Draining(client, drainTime, func() {}), cfg)
	if err != nil {
		return err
	}
	return p.run(ctx)
}

func newProxy(client Link, cfg Config) (*proxy, error) {
	cfg.CallTimeout = cmp.Or(cfg.CallTimeout, 10*time.Minute)
	cfg.StartTimeout = cmp.Or(cfg.StartTimeout, 30*time.Second)
	cfg.session = tools.Call{Session: cfg.Session}.SessionToken()
	cfg.jobs = cmp.Or(cfg.jobs, new(sync.Map))
	p := &proxy{
		cfg: cfg, client: client,
		pending: map[string]*request{}, internal: map[string]chan *wire.Message{}, fromServer: map[string]serverRequest{},
		known: map[string]toolInfo{}, replay: map[string]*wire.Message{}, taskTools: map[string]string{},
		demand: make(chan struct{}, 1), notes: rate.NewLimiter(noteRate, noteBurst),
	}
	if cfg.Store == nil {
		return p, nil
	}
	h, err := newHosted(cfg, hosts.Limits{})
	p.hosted.Store(h)
	return p, err
}

// Stream is a Link over a pair of streams, with one message per line.
type Stream struct {
	in    *wire.Lines
	out   *bufio.Writer
	end   func()
	ended func() error // how a process ended; nil if there is none
}

// NewStream returns the link over in and out. end closes them; it may be nil.
func NewStream(in io.Reader, out io.Writer, end func()) *Stream {
	return &Stream{in: wire.NewLines(in), out: bufio.NewWriterSize(out, 64<<10), end: end}
}

// StartProgram starts a program and returns the link to it. Its Receive returns how the process
// ended. The error wraps ErrPermanent if the program cannot be started at all.
func StartProgram(cfg command.Config) (Link, error) {
	p, err := command.Start(cfg)
	if errors.Is(err, command.ErrNoProgram) {
		return nil, fmt.Errorf("%w: %w", ErrPermanent, err)
	}
	if err != nil {
		return nil, err
	}
	s := NewStream(p.Stdout, p.Stdin, p.Close)
	s.ended = p.Err
	return s, nil
}

// Send implements Link.
func (s *Stream) Send(m *wire.Message) error {
	_, _ = s.out.Write(m.Text()) // Flush returns its error
	_ = s.out.WriteByte('\n')
	return s.out.Flush()
}

// Receive implements Link.
func (s *Stream) Receive() (*wire.Message, error) {
	m, err := s.in.Next()
	if err != nil && s.ended != nil && !wire.IsOfOneMessage(err) {
		s.Close()
		return nil, s.ended()
	}
	return m, err
}

// Close implements Link.
func (s *Stream) Close() {
	if s.end != nil {
		s.end()
	}
}
