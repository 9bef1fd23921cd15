package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// errNoInbox: no answer can come to this user, so that nothing works.
var errNoInbox = errors.New("answers come there; the user may have another inbox prefix")

// denials brings what the server refuses to those who wait for an answer: it is
// no error of the publish that was refused, but comes by itself.
type denials struct {
	mu      sync.Mutex
	waiting map[*context.CancelCauseFunc]string // the subjects that they publish to
}

// WatchDenial calls f, which publishes to a subject and waits for what that leads to,
// with a context that ends when the server refuses it. Then the error is a
// nats.ErrPermissionViolation that says what this user may not do.
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

// tell reports whether somebody waits who is told of err.
func (d *denials) tell(err error, inbox string) (told bool) {
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
			(*cancel)(fmt.Errorf("%w for subscription to %q: %w", nats.ErrPermissionViolation, inbox+".>", errNoInbox))
		default:
			continue
		}
		told = true
	}
	return told
}
