package tools

import "context"

type detachKey struct{}

// WithDetach returns a context in which Detach calls detach.
func WithDetach(ctx context.Context, detach func()) context.Context {
	return context.WithValue(ctx, detachKey{}, detach)
}

// Detach tells whoever runs the call that it is waiting for another call to end,
// and gives its slot to the next one: calls that wait must not keep those from
// running that they wait for. A tool calls it with the context that it was
// given, once or more; it may be called where nobody listens.
func Detach(ctx context.Context) {
	if detach, ok := ctx.Value(detachKey{}).(func()); ok {
		detach()
	}
}
