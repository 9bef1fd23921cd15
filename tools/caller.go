package tools

import "context"

// Caller is whoever runs a call, for the little that its tool has to say
// meanwhile.
type Caller interface {
	// Report takes how far the call is.
	Report(Progress)
	// Detach gives the call's slot to the next one, once or more.
	Detach()
}

// Progress tells how far a running call is.
type Progress struct {
	// Message says in a few words what is being done.
	Message string `json:"message,omitempty"`
	// Done of Total, in whatever unit; a Total of 0 is unknown.
	Done  float64 `json:"done,omitempty"`
	Total float64 `json:"total,omitempty"`
}

type callerKey struct{}

// WithCaller returns the context for a tool of which caller runs a call.
func WithCaller(ctx context.Context, caller Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

// ReportProgress tells whoever watches the call how far it is. A tool calls it
// with the context that it was given, as often as it likes; it costs little,
// and may be called where nobody watches.
func ReportProgress(ctx context.Context, p Progress) {
	if caller, ok := ctx.Value(callerKey{}).(Caller); ok {
		caller.Report(p)
	}
}

// Detach tells whoever runs the call that it is waiting for another call to end,
// and gives its slot to the next one: calls that wait must not keep those from
// running that they wait for. A tool calls it with the context that it was
// given, once or more; it may be called where nobody listens.
func Detach(ctx context.Context) {
	if caller, ok := ctx.Value(callerKey{}).(Caller); ok {
		caller.Detach()
	}
}
