package cli

import (
	"errors"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// Advice says what to do about an error, or nothing. The packages that return errors know no
// commands and flags; they are only here.
func Advice(err error) string {
	if full, ok := errors.AsType[*bus.FullError](err); ok {
		return StreamAdvice(full.Stream)
	}
	if _, ok := errors.AsType[*bus.MissingError](err); ok {
		return MissingAdvice
	}
	if _, ok := errors.AsType[*admin.SpaceError](err); ok {
		return "Free space on the server's disk, or choose a smaller size with --max-bytes."
	}
	if format, ok := errors.AsType[*jsapi.FormatError](err); ok {
		if format.Unused {
			return "Take it over with \"stevedore provision --update\", or delete it."
		}
		return "Or use another --prefix."
	}
	switch {
	case errors.Is(err, bus.ErrNoLeader):
		return LeaderAdvice
	case errors.Is(err, bus.ErrNoInbox):
		return "The logins that \"stevedore provision --server-config\" writes for workers need --inbox-prefix _INBOX_worker, those for the page --inbox-prefix _INBOX_console."
	case errors.Is(err, bus.ErrNoCredential):
		return "The URL that \"stevedore up\" prints contains one."
	case errors.Is(err, jetstream.ErrBucketNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
		return MissingAdvice
	}
	return ""
}

// MissingAdvice says what to do about a stream or bucket that does not exist.
const MissingAdvice = "\"stevedore provision\" creates it; its contents are lost, unless you restore a backup."

// LeaderAdvice says what to do about a cluster, or a stream of it, without a leader.
const LeaderAdvice = "Start the servers that are down. Clients repeat their publishes, and workers wait and then go on."

// StreamAdvice says what makes room in a stream.
func StreamAdvice(stream string) string {
	enlarge := "enlarge it: stevedore provision --update --max-bytes " + strings.ToLower(stream) + "=BYTES."
	switch stream {
	case bus.Results:
		return "It does not hold the results of an hour. Shorten --results-ttl, or " + enlarge
	case bus.Sessions:
		return "Remove conversations (stevedore sessions rm), shorten --sessions-ttl, or " + enlarge
	case bus.Outbox:
		return "Notifications wait for channels that do not accept them: see stevedore channels, or " + enlarge
	case bus.Dead:
		return "Retry or remove dead letters (stevedore dead), or " + enlarge
	}
	return "Calls arrive faster than workers finish them: start more workers, or " + enlarge
}
