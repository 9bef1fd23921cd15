package tools

import "context"

// Progress tells how far a running call is.
type Progress struct {
	// Message says in a few words what is being done.
	Message string `json:"message,omitempty"`
	// Done of Total, in whatever unit; a Total of 0 is unknown.
	Done  float64 `json:"done,omitempty"`
	Total float64 `json:"total,omitempty"`
}

type progressKey struct{}

// WithProgress returns a context in which ReportProgress calls report.
func WithProgress(ctx context.Context, report func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, report)
}

// ReportProgress tells whoever watches the call how far it is. A tool calls it
// with the context that it was given, as often as it likes; it costs little,
// and may be called where nobody watches.
func ReportProgress(ctx context.Context, p Progress) {
	if report, ok := ctx.Value(progressKey{}).(func(Progress)); ok {
		report(p)
	}
}
