package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// ErrNoInbox means that the user cannot receive replies, so nothing works.
var ErrNoInbox = errors.New("replies arrive there; the user may need another inbox prefix")

// denials passes permission errors to the callers that wait for a reply. The server
// sends these errors separately: a denied publish itself returns no error.
type denials struct {
	mu      sync.Mutex
	waiting map[*context.CancelCauseFunc]string // the subject that the caller publishes to
	refused map[string]time.Time                // what no caller waited for, and when
}

const (
	// deniedFor is how long a refused publish is remembered: longer than the pause after which what failed is tried again.
	deniedFor = time.Minute
	// maxDenied limits what is remembered.
	maxDenied = 100
)

// Denied returns what the server does not let this user do, such as "publish to stevedore.result.>", if no caller of
// WatchDenial expected it. A refused publish is among it for a minute, a subscription until the next connection,
// because the client does not repeat it.
func (b *Bus) Denied() []string {
	d := &b.denials
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.refused, func(_ string, at time.Time) bool { return !at.IsZero() && time.Since(at) > deniedFor })
	return slices.Sorted(maps.Keys(d.refused))
}

// refusal matches the server's text.
var refusal = regexp.MustCompile(`Permissions Violation for (Publish|Subscription) to "([^"]+)"`)

// remember notes what the server refused. Replies go where clients want them, so they say nothing of this user.
func (b *Bus) remember(err error, inbox string) {
	m := refusal.FindStringSubmatch(err.Error())
	if m == nil {
		return
	}
	what, at, length := "subscribe to ", time.Time{}, 2
	if m[1] == "Publish" {
		what, at = "publish to ", time.Now()
		if !slices.ContainsFunc([]string{"$JS.", "$KV.", "$O.", b.Prefix() + "."}, func(own string) bool { return strings.HasPrefix(m[2], own) }) {
			return
		}
	}
	switch {
	case strings.HasPrefix(m[2], inbox+"."):
		length = strings.Count(inbox, ".") + 1
	case strings.HasPrefix(m[2], "$JS.API."):
		length = 4
	}
	tokens := strings.SplitN(m[2], ".", length+1)
	if len(tokens) > length {
		tokens[length] = ">"
	}
	d := &b.denials
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refused == nil {
		d.refused = map[string]time.Time{}
	}
	if len(d.refused) < maxDenied {
		d.refused[what+strings.Join(tokens, ".")] = at
	}
}

// forget is for a lost connection: the client repeats the subscriptions on the next one.
func (d *denials) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.refused)
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
		reported = reported || !strings.Contains(subject, "$KV.") // an entry that cannot be stored is unexpected all the same
	}
	return reported
}
