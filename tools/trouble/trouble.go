// Package trouble is the register of what fails in a process. Whatever tries something again until it
// works reports each failure, and that it works again. The status, /readyz, /metrics, doctor and the
// page show what the register has, and nothing else of a process.
package trouble

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// Kind says what fails. Its text is a code of status.Problem.
type Kind string

const (
	Store        Kind = "store_failing"       // the artifact store
	StoreFull    Kind = "store_full"          // the artifact store keeps only what fits
	Replaced     Kind = "store_replaced"      // the directory of the artifact store
	Directory    Kind = "directory_gone"      // of the server in this process
	Workspace    Kind = "workspace_gone"      // the directory in which the tools work, or it was replaced
	Disk         Kind = "disk_full"           // the disk of the server in this process
	OpenFiles    Kind = "open_files_low"      // the limit of this process
	Streams      Kind = "streams_unusable"    // missing, without a leader, full, or refusing writes
	Consumer     Kind = "consumer_failing"    // what delivers messages to this process; by name
	Permission   Kind = "permission_denied"   // by what the server does not let this process do
	Schedules    Kind = "schedules_failing"   // what keeps their due times right
	Heartbeat    Kind = "heartbeat_failing"   // what writes its schedule
	Model        Kind = "model_unavailable"   // by spec
	ModelRefused Kind = "model_refused"       // by spec: the key, the credit, the name or the address
	Channel      Kind = "channel_failing"     // by name
	Receiver     Kind = "receiver_failing"    // what receives the messages of a channel; by name
	MCPServer    Kind = "mcp_server_failing"  // by name
	MCPCall      Kind = "mcp_call_failing"    // by name of the server
	RemoteTool   Kind = "remote_tool_failing" // by name
)

// Stops reports whether a process with a failure of this kind cannot do its work.
func (k Kind) Stops() bool {
	return k == Store || k == Replaced || k == Directory || k == Disk || k == Streams || k == Consumer || k == Permission
}

// NeedsStreams reports whether what fails works with the streams of the bus, so that their failure explains it.
func (k Kind) NeedsStreams() bool {
	return k == Streams || k == Consumer || k == Schedules || k == Heartbeat
}

// Failure is something that fails now.
type Failure struct {
	Kind Kind `json:"kind"`
	// Name is that of the channel, model, server, tool or consumer, if there can be several.
	Name  string    `json:"name,omitempty"`
	Since time.Time `json:"since"`
	Error string    `json:"error"`

	Err  error     `json:"-"` // Error, with its type
	last time.Time // when it was reported last
}

// keptFor is how long a failure is kept that nobody reports again: whoever reported it no longer
// tries. It is longer than the longest pause between two attempts.
const keptFor = 6 * time.Minute

// Register has what fails. The zero value is ready to use.
type Register struct {
	mu       sync.Mutex
	failures map[key]Failure
}

type key struct {
	kind Kind
	name string
}

// Report notes that something fails, or with nil that it works.
func (r *Register) Report(kind Kind, name string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := key{kind, name}
	if err == nil {
		delete(r.failures, k)
		return
	}
	if r.failures == nil {
		r.failures = map[key]Failure{}
	}
	now := time.Now().UTC()
	f, known := r.failures[k]
	if !known || now.Sub(f.last) > keptFor {
		f = Failure{Kind: kind, Name: name, Since: now}
	}
	f.Err, f.Error, f.last = err, err.Error(), now
	r.failures[k] = f
}

// List returns what fails, in the order of kinds and names.
func (r *Register) List() []Failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.failures, func(_ key, f Failure) bool { return time.Since(f.last) > keptFor })
	return slices.SortedFunc(maps.Values(r.failures), func(x, y Failure) int {
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Name, y.Name))
	})
}

type contextKey struct{}

// With returns a context whose reports go to a register.
func (r *Register) With(ctx context.Context) context.Context {
	return context.WithValue(ctx, contextKey{}, r)
}

// Report reports to the register of the context, if it has one. What fails because the context has
// ended is no failure.
func Report(ctx context.Context, kind Kind, name string, err error) {
	if r, ok := ctx.Value(contextKey{}).(*Register); ok && (err == nil || ctx.Err() == nil) {
		r.Report(kind, name, err)
	}
}
