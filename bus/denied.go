package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// ErrNoInbox means that the user cannot receive replies, so nothing works.
var ErrNoInbox = errors.New("replies arrive there; the user may need another inbox prefix")

// denials passes permission errors to the callers that wait for a reply. The server
// sends these errors separately: a denied publish itself returns no error.
type denials struct {
	mu      sync.Mutex
	waiting map[*context.CancelCauseFunc]string // the subject that the caller publishes to
}

// WatchDenial calls f, which publishes to subject and waits for a reply. If the server
// denies the publish, WatchDenial cancels f's context and returns an error that wraps
// nats.ErrPermissionViolation.
func (b *Bus) WatchDenial(ctx context.Context, subject string, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d := &b.denials
	d.mu.Lock()
	if d.waiting == nil {
		d.waiting = map[*context.CancelCauseFunc]string{}
	}
	d.waiting[&cancel] = subject
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.waiting, &cancel)
	}()
	err := f(ctx)
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, nats.ErrPermissionViolation) {
		return cause
	}
	return err
}

// report passes a permission error to the callers that it affects, and reports
// whether there are any.
func (d *denials) report(err error, inbox string) (reported bool) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for cancel, subject := range d.waiting {
		switch text := err.Error(); {
		case strings.Contains(text, fmt.Sprintf("Publish to %q", subject)):
			(*cancel)(fmt.Errorf("%w for publish to %q", nats.ErrPermissionViolation, subject))
		case strings.Contains(text, fmt.Sprintf(`Subscription to "%s.`, inbox)):
			(*cancel)(fmt.Errorf("%w for subscription to %q: %w", nats.ErrPermissionViolation, inbox+".>", ErrNoInbox))
		default:
			continue
		}
		reported = true
	}
	return reported
}
