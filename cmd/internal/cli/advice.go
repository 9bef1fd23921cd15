package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// Advice says what to do about an error, or nothing. The packages that return errors know no
// commands and flags; they are only here.
func Advice(err error) string {
	if full, ok := errors.AsType[*bus.FullError](err); ok {
		return StreamReason(full.Stream) + ": stevedore provision --update --max-bytes " + strings.ToLower(full.Stream) + "=BYTES."
	}
	if _, ok := errors.AsType[*bus.MissingError](err); ok {
		return missingAdvice
	}
	if _, ok := errors.AsType[*admin.SpaceError](err); ok {
		return "Free space on the server's disk, or choose a smaller size with --max-bytes."
	}
	if format, ok := errors.AsType[*jsapi.FormatError](err); ok {
		return formatAdvice(format)
	}
	switch {
	case errors.Is(err, bus.ErrNoLeader):
		return LeaderAdvice
	case errors.Is(err, bus.ErrNoInbox):
		return "The logins that \"stevedore provision --server-config\" writes for workers need --inbox-prefix _INBOX_worker, those for " +
			"the page --inbox-prefix _INBOX_console."
	case errors.Is(err, bus.ErrNoCredential):
		return "The URL that \"stevedore up\" prints contains one."
	case errors.Is(err, nats.ErrAuthorization):
		return "Give a credential of this server: in the URL of --server, or with --creds, --nkey or --context. \"stevedore up\" prints its own URL."
	case errors.Is(err, nats.ErrNoServers):
		return "Start the server, or name another one with --server; without it, the commands use that of \"stevedore up\"."
	case errors.Is(err, jetstream.ErrBucketNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
		return missingAdvice
	}
	return ""
}

// formatAdvice says how to go on with a bus of another format.
func formatAdvice(err *jsapi.FormatError) string {
	if steps, ok := admin.Steps(err); ok {
		stop := ""
		for _, s := range steps {
			if !s.Beside {
				stop = " Stop the workers of the version before first."
			}
		}
		return "\"stevedore provision --update\" moves what is stored to the formats of this program; \"stevedore up\" does so when it starts." + stop
	}
	for _, d := range err.Differences {
		if d.Has.Compare(d.Wants) > 0 {
			return "Use the version of Stevedore that stored it, or a later one."
		}
	}
	advice := "No step moves it. Let the version of Stevedore that stored it finish its work, and use another --prefix or --data with this one."
	for _, d := range err.Differences {
		if d.Has == (jsapi.Version{}) && !d.Unused {
			return advice + fmt.Sprintf(" If you are certain that the messages of %[1]s have version %[2]d: nats stream edit %[1]s --metadata %[3]s=%[2]d",
				d.Stream, d.Wants.Major, jsapi.FormatKey)
		}
	}
	return advice
}

// missingAdvice says what to do about a stream or bucket that does not exist.
const missingAdvice = "\"stevedore provision\" creates it; its contents are lost, unless you restore a backup."

// LeaderAdvice says what to do about a cluster, or a stream of it, without a leader.
const LeaderAdvice = "Start the servers that are down. Clients repeat their publishes, and workers wait and then go on."

// StreamReason says what makes room in a stream, up to the command that enlarges it.
func StreamReason(stream string) string {
	switch stream {
	case bus.Results:
		return "It does not hold the results of an hour. Shorten --results-ttl, or enlarge it"
	case bus.Sessions:
		return "Remove conversations (stevedore sessions rm), shorten --sessions-ttl, or enlarge it"
	case bus.Outbox:
		return "Notifications wait for channels that do not accept them: see stevedore channels, or enlarge it"
	case bus.Dead:
		return "Retry or remove dead letters (stevedore dead), or enlarge it"
	}
	if strings.HasPrefix(stream, "OBJ_") {
		return "Results are cut to what fits. Remove artifacts (stevedore artifacts rm), or make room on the disk of the data directory and restart stevedore up. " +
			"What removed artifacts leave goes after an hour, or with"
	}
	return "Calls wait for workers: start more, or enlarge it"
}
