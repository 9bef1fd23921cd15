package tools

import "context"

// Reporter takes what a tool reports while it runs a call.
type Reporter interface {
	// Report takes the progress of the call.
	Report(Progress)
	// Detach releases the call's slot. A tool may call it more than once.
	Detach()
}

// Progress is how far a running call is.
type Progress struct {
	// Message describes the current step in a few words.
	Message string `json:"message,omitempty"`
	// Done of Total, in any unit; a Total of 0 is unknown.
	Done  float64 `json:"done"`
	Total float64 `json:"total,omitempty"`
	// Activity is what an agent did since its last report, in order. Each is reported
	// once, and no stream stores it.
	Activity []Activity `json:"activity,omitempty"`
}

type reporterKey struct{}

// WithReporter returns the context for a tool that runs a call.
func WithReporter(ctx context.Context, reporter Reporter) context.Context {
	return context.WithValue(ctx, reporterKey{}, reporter)
}

// ReportProgress reports the progress of the call to its watchers. A tool passes the
// context that it received. ReportProgress takes little time, and does nothing without a
// Reporter.
func ReportProgress(ctx context.Context, p Progress) {
	if reporter, ok := ctx.Value(reporterKey{}).(Reporter); ok {
		reporter.Report(p)
	}
}

// Stopping returns a channel that is closed when the worker of the call stops. A tool that
// can continue elsewhere then returns a Pause that ends immediately. A tool passes the
// context that it received; without a worker, the channel is nil.
func Stopping(ctx context.Context) <-chan struct{} {
	reporter, ok := ctx.Value(reporterKey{}).(interface{ Stopping() <-chan struct{} })
	if !ok {
		return nil
	}
	return reporter.Stopping()
}

// Detach releases the slot of a call that waits for another call, so that waiting
// calls do not keep the others from running. A tool passes the context that it
// received. Detach may be called more than once, and does nothing without a Reporter.
func Detach(ctx context.Context) {
	if reporter, ok := ctx.Value(reporterKey{}).(Reporter); ok {
		reporter.Detach()
	}
}

type approvedKey struct{}

// WithApproval returns the context for a call that a person approved.
func WithApproval(ctx context.Context) context.Context {
	return context.WithValue(ctx, approvedKey{}, true)
}

// Approved reports whether a person approved the call, so that a tool may do what it otherwise
// refuses. A tool passes the context that it received.
func Approved(ctx context.Context) bool { return ctx.Value(approvedKey{}) != nil }
