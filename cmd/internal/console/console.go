package console

import (
	"context"
	"embed"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/cmd/internal/httpauth"
)

// Config configures a Console.
type Config struct {
	// Token is required in each request; see httpauth.
	Token string
	// Hosts are additional names in the Host header that the page accepts.
	Hosts []string
	// ReadOnly rejects every request that changes something.
	ReadOnly bool
	// Version of the program and Server, the address of the bus, are for people. Server
	// has no credential.
	Version, Server string
	// Status reads the state of the installation, with what to do about its problems.
	Status func(context.Context) status.Status
	Log    zerolog.Logger
}

// Console serves the page. It is safe for concurrent use.
type Console struct {
	bus *bus.Bus
	cfg Config
	hub *hub
}

//go:embed static
var static embed.FS

// contentPolicy allows only the files of this page. Trusted types forbid the functions
// that make HTML of text.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; manifest-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// New returns the handler of the page and its API.
func New(b *bus.Bus, cfg Config) (http.Handler, error) {
	c := &Console{bus: b, cfg: cfg}
	c.hub = newHub(b, cfg.Log)
	guard, err := httpauth.New(httpauth.Config{
		Tokens: map[string]string{cfg.Token: "console"}, Hosts: cfg.Hosts,
		Cookie: "stevedore_console", Unauthorized: http.HandlerFunc(c.signIn),
	})
	if err != nil {
		return nil, err
	}
	return guard.Handler(c.routes()), nil
}

// route is a route that an operation answers. Defaults is a query with what a request may leave out.
type route struct {
	op       *rpc.Operation
	defaults string
}

// operations are the routes of the API. Those that GET may not have an operation that changes something.
var operations = map[string]route{
	"GET /api/calls":                                   {&rpc.ListEnded.Operation, ""},
	"GET /api/sessions":                                {&agents.ListSessions.Operation, "limit=60"},
	"GET /api/dead":                                    {&rpc.ListDead.Operation, "back=true&limit=100"},
	"GET /api/usage":                                   {&agents.GetUsage.Operation, ""},
	"GET /api/approvals":                               {&rpc.ListAllApprovals.Operation, ""},
	"POST /api/approvals/{session}/{id}":               {&answerApproval.Operation, ""},
	"GET /api/calls/{session}/{id}":                    {&showCall.Operation, ""},
	"GET /api/artifacts":                               {&rpc.ListAllArtifacts.Operation, "limit=100"},
	"GET /api/artifacts/{session}":                     {&rpc.QueryArtifacts.Operation, "limit=100"},
	"GET /api/artifacts/{session}/{artifact_id}":       {&rpc.ArtifactRecord.Operation, ""},
	"GET /api/artifacts/{session}/{artifact_id}/lines": {&rpc.ArtifactLines.Operation, ""},
	"GET /api/artifacts/{session}/{artifact_id}/get":   {&rpc.GetArtifact.Operation, ""},
	"GET /api/artifacts/{session}/{artifact_id}/grep":  {&rpc.GrepArtifact.Operation, ""},
	"GET /api/artifacts/{session}/{artifact_id}/jq":    {&rpc.JQArtifact.Operation, ""},
	"GET /api/artifacts/{session}/{artifact_id}/sql":   {&rpc.SQLArtifacts.Operation, ""},
	"GET /api/sessions/{session}":                      {&showSession.Operation, ""},
	"GET /api/sessions/{session}/trace":                {&agents.GetTrace.Operation, ""},
	"GET /api/sessions/{session}/runs/{run}/{turn}":    {&agents.GetTurn.Operation, ""},
	"GET /api/dead/{number}":                           {&showDead.Operation, ""},
	"POST /api/calls/{session}/{id}/cancel":            {&rpc.CancelTask.Operation, ""},
	"POST /api/sessions/{session}/messages":            {&sendMessage.Operation, ""},
	"POST /api/sessions/{session}/remove":              {&agents.RemoveSession.Operation, ""},
	"POST /api/dead/{action}":                          {&changeDead.Operation, ""},
	"POST /api/calls/cancel":                           {&cancelCalls.Operation, ""},
}

func (c *Console) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", c.file("index.html"))
	mux.HandleFunc("GET /static/{name...}", func(w http.ResponseWriter, r *http.Request) { c.file(r.PathValue("name"))(w, r) })
	mux.HandleFunc("GET /api/events", c.events)
	mux.HandleFunc(contentRoute, c.artifactContent)
	for route, answer := range map[string]func(*http.Request) (any, error){
		"GET /api/state":   c.state,
		"GET /api/status":  c.status,
		"GET /api/running": c.running,
		"GET /api/waiting": c.waiting,

		"GET /api/artifacts/{session}/{id}/link": c.artifactLink,
		"GET /api/schedules":                     c.schedules,

		"POST /api/schedules/{name}/{action}": c.changeSchedule,
		"POST /api/channels/{name}/test":      c.testChannel,
	} {
		mux.HandleFunc(route, c.answer(answer))
	}
	for pattern, r := range operations {
		mux.HandleFunc(pattern, c.answer(c.do(r.op, r.defaults)))
	}
	return mux
}

// file serves one of the embedded files.
func (c *Console) file(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		data, err := fs.ReadFile(static, "static/"+name)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", contentTypes[name[strings.LastIndexByte(name, '.')+1:]])
		w.Header().Set("Content-Security-Policy", contentPolicy)
		_, _ = w.Write(data)
	}
}

// contentTypes are fixed, because those of a system may be wrong.
var contentTypes = map[string]string{
	"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8",
	"js": "text/javascript; charset=utf-8", "svg": "image/svg+xml",
}

// signInFiles are the files that a browser without a token gets. They contain no data.
var signInFiles = map[string]bool{"signin.js": true, "style.css": true, "icon.svg": true}

// signIn answers requests without a valid token.
func (c *Console) signIn(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/static/")
	switch {
	case r.Method == http.MethodGet && signInFiles[name] && name != r.URL.Path:
		w.Header().Del("WWW-Authenticate")
		c.file(name)(w, r)
	case r.Method == http.MethodGet && r.URL.Query().Has("signature"):
		links := http.NewServeMux()
		links.HandleFunc(contentRoute, c.linkedContent)
		links.ServeHTTP(w, r)
	case r.Method == http.MethodGet && r.URL.Path == "/":
		w.Header().Set("Content-Type", contentTypes["html"])
		w.Header().Set("Content-Security-Policy", contentPolicy)
		w.WriteHeader(http.StatusUnauthorized)
		data, _ := fs.ReadFile(static, "static/signin.html")
		_, _ = w.Write(data)
	default:
		writeError(w, http.StatusUnauthorized, "unauthorized", "a valid token is required: open the URL that the worker printed, or send Authorization: Bearer TOKEN")
	}
}

// state returns what the page needs to know about itself.
func (c *Console) state(*http.Request) (any, error) {
	return map[string]any{
		"version": c.cfg.Version, "prefix": c.bus.Prefix(), "read_only": c.cfg.ReadOnly,
		"server": c.cfg.Server, "connected": c.bus.Conn().IsConnected(), "now": time.Now().UTC(),
	}, nil
}

// statusTimeout limits the requests of one status.
const statusTimeout = 5 * time.Second

func (c *Console) status(r *http.Request) (any, error) {
	ctx, cancel := context.WithTimeout(r.Context(), statusTimeout)
	defer cancel()
	s := c.cfg.Status(ctx)
	s.Server.URL = c.cfg.Server // a connection within the process has no address
	return s, nil
}
