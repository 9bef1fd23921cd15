package cli

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
	"github.com/stevedore-bus/stevedore/state/durable"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// Advice says what somebody who has the connection can do about an error, or nothing. The packages that
// return errors know no commands and flags; they are only here.
func (c *Connection) Advice(err error) string {
	if full, ok := errors.AsType[*bus.FullError](err); ok {
		return c.Remedy(c.FullAdvice(full.Stream, full.MaxBytes))
	}
	if _, ok := errors.AsType[*bus.MissingError](err); ok {
		return MissingAdvice + " " + c.Command("provision")
	}
	if altered, ok := errors.AsType[*bus.AlteredError](err); ok {
		return c.Remedy(AlteredAdvice(altered.Permanent != ""))
	}
	if _, ok := errors.AsType[*admin.SpaceError](err); ok {
		return "Free space on the server's disk, raise the limit of its account (max_file), or choose a smaller size with --max-bytes."
	}
	if format, ok := errors.AsType[*jsapi.FormatError](err); ok {
		return c.formatAdvice(format)
	}
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && api.ErrorCode == errMaxStreams {
		return "Raise max_streams of the account in the configuration of the server: Stevedore has 10 streams and buckets."
	}
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && api.ErrorCode == errMaxConsumers {
		return "Raise max_consumers of the account in the configuration of the server, or of the stream: each queue, channel and reader needs one."
	}
	if advice := c.tlsAdvice(err); advice != "" {
		return advice
	}
	if advice := durable.WriteAdvice(err); advice != "" && !strings.Contains(err.Error(), advice) {
		return strings.ToUpper(advice[:1]) + advice[1:] + "."
	}
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled):
		return "Start the server with JetStream: nats-server -js"
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return "In the configuration of the server, give the account of the login \"jetstream: enabled\"."
	case errors.Is(err, admin.ErrDamaged):
		return "Copy the backup again from where it was made, or restore another one."
	case errors.Is(err, syscall.EMFILE):
		return OpenFilesAdvice
	case strings.Contains(err.Error(), "Maximum Payload Violation"): // the library has no type for it
		return "The max_payload of the server was lowered: start this again, so that it keeps to the new limit, or raise max_payload again."
	case errors.Is(err, bus.ErrOldServer):
		return "Upgrade the NATS server, one server of a cluster after the other, or name another one with --server."
	case errors.Is(err, bus.ErrNoLeader):
		return LeaderAdvice
	case errors.Is(err, bus.ErrNoInbox):
		return "The logins that \"stevedore provision --server-config\" writes for workers need --inbox-prefix _INBOX_worker, those for " +
			"the page --inbox-prefix _INBOX_console."
	case errors.Is(err, bus.ErrNoCredential):
		return "The URL that \"stevedore up\" prints contains one."
	case errors.Is(err, nats.ErrAuthorization) && c.Creds+c.NKey != "", ended.MatchString(err.Error()):
		return "The credential is one of another server, was revoked, or has expired: replace the file of --creds or --nkey by a new one, and start this again."
	case errors.Is(err, nats.ErrAuthorization):
		return "Give a credential of this server: in the URL of --server, or with --creds, --nkey or --context. \"stevedore up\" prints its own URL."
	case errors.Is(err, bus.ErrNotNATS) && !c.External():
		return "The process of the data directory does not answer: if it is suspended, continue it (kill -CONT PID); if it hangs, end it and start it again."
	case errors.Is(err, bus.ErrNotNATS):
		return "Give --server the client port of a NATS server, by default nats://HOST:4222, or ws://HOST:PORT for that of its block websocket: " +
			"not that of its monitoring or of another program. If it is the right one, the server hangs, or wants TLS first " +
			"(handshake_first): use a --context with tls_first."
	case errors.Is(err, nats.ErrNoServers):
		return "Start the server, or name another one with --server; without it, the commands use that of \"stevedore up\"."
	case errors.Is(err, jetstream.ErrBucketNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
		return MissingAdvice + " " + c.Command("provision")
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return "The stream does not exist or has no leader: " + c.Command("status")
	case errors.Is(err, nats.ErrPermissionViolation):
		return "Use a credential that has this permission: \"stevedore provision --server-config\" writes those of each role, see docs/security.md."
	case errors.Is(err, context.DeadlineExceeded) && errors.Is(err, bus.ErrUnreachable):
		return LeaderAdvice + " If all run, one hangs: read its log."
	}
	return ""
}

// Remedy returns advice with the command that does it, if there is one. The nats CLI does not find the embedded server.
func (c *Connection) Remedy(advice string, command []string) string {
	switch {
	case command != nil:
		advice += " " + c.Command(command...)
	case strings.Contains(advice, "nats ") && !c.External():
		advice += ` (the nats CLI gets the login of this server with: eval "$(` + c.Command("up", "--print-env") + `)")`
	}
	return advice
}

// ended matches the errors of a server about a credential; the library knows only some of them by their types.
var ended = lazyregexp.New(`(?i)authentication (expired|revoked)`)

// Codes of an account that may have no more consumers or streams.
const errMaxConsumers, errMaxStreams = 10026, 10027

// tlsAdvice says what to do about a certificate.
func (c *Connection) tlsAdvice(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "Name the authority that signed the server's certificate with --tlsca FILE" + given(c.TLSCA) + "."
	}
	if host, ok := errors.AsType[x509.HostnameError](err); ok {
		names := slices.Clone(host.Certificate.DNSNames)
		for _, ip := range host.Certificate.IPAddresses {
			names = append(names, ip.String())
		}
		return "Use a name or address of the server's certificate in --server: " + strings.Join(names, ", ") + "."
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return "Renew the server's certificate, or correct this host's clock."
	}
	switch text := err.Error(); {
	case errors.Is(err, nats.ErrSecureConnWanted), strings.Contains(text, "first record does not look like a TLS handshake"):
		return "The server has no TLS there: begin its URL with nats:// (ws:// for WebSocket) and leave --tlsca and --tlscert out, or give the server a certificate."
	case strings.Contains(text, "remote after TLS handshake"), strings.Contains(text, "remote error: tls: ") && strings.Contains(text, "certificate"):
		return "The server wants a certificate of the client that its authority signed and that has not expired: give it with --tlscert and --tlskey" +
			given(c.TLSCert) + "." // both texts are of libraries
	case errors.Is(err, nats.ErrTLS):
		return "Compare --tlsca, --tlscert and --tlskey with the block tls in the configuration of the server."
	}
	return ""
}

// given names the file of a flag that needs another one.
func given(file string) string {
	if file == "" {
		return ""
	}
	return ", not " + file
}

// formatAdvice says how to go on with a bus of another format.
func (c *Connection) formatAdvice(err *jsapi.FormatError) string {
	if steps, ok := admin.Steps(err); ok {
		stop := ""
		for _, s := range steps {
			if !s.Beside {
				stop = " Stop the workers of the version before first."
			}
		}
		return "Move what is stored to the formats of this program, as \"stevedore up\" does when it starts." + stop + " " + c.Command("provision", "--update")
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

// MissingAdvice says what to do about streams or buckets that do not exist, up to the command.
const MissingAdvice = "Create what is missing; its contents are lost, unless you restore a backup:"

// AlteredAdvice says what to do about a stream that lacks subjects, has other settings or has some that the server does not take back, and with which command.
func AlteredAdvice(permanent bool) (advice string, command []string) {
	if permanent {
		return "The server cannot take this back. Stop what sends calls, save everything, and restore the copy (\"stevedore restore\") on a " +
			"server without these streams: there the stream works again. To save it:", []string{"backup", "stevedore-backup"}
	}
	return "Give it back what this program needs:", []string{"provision", "--update"}
}

// PermissionAdvice says what to do about something that a server does not let a user do.
func PermissionAdvice(what string) string {
	advice := "The operator of the NATS server must let this user " + strconv.Quote(what) +
		", and reload its configuration; \"stevedore provision --server-config DIR\" writes the permissions of each role."
	if strings.HasPrefix(what, "subscribe") {
		advice += " Then restart the worker."
	}
	return advice
}

// LeaderAdvice says what to do about a cluster, or a stream of it, without a leader.
const LeaderAdvice = "Start the servers that are down. Clients repeat their publishes, and workers wait and then go on."

// OpenFilesAdvice says what to do about a low limit of open files.
const OpenFilesAdvice = "Raise the limit of open files to 1024 or more, and start it again: ulimit -n 1024 in its shell, " +
	"LimitNOFILE=1024 in its unit of systemd, --ulimit nofile=1024 for its container."

// FullAdvice says what makes room in a stream of a size, and with which command. A process that sets its
// own sizes at each start needs the new one too.
func (c *Connection) FullAdvice(stream string, maxBytes int64) (advice string, command []string) {
	advice = c.streamReason(stream)
	switch {
	case strings.HasPrefix(stream, "OBJ_"):
		return advice + ":", []string{"artifacts", "sweep", "--grace", "10s"}
	case strings.HasPrefix(stream, "KV_"):
		return fmt.Sprintf("This program gave the bucket no size. Enlarge it, or remove the size (-1): nats stream edit %s --max-bytes %d", stream, 2*maxBytes), nil
	case stream == bus.Ticks:
		return AlteredAdvice(false)
	}
	if !c.External() {
		advice += " (give \"stevedore up\" the same --max-bytes from now on, because it sets the sizes at its start)"
	}
	return advice + ":", []string{"provision", "--update", "--max-bytes", fmt.Sprintf("%s=%dMiB", strings.ToLower(stream), max(1, 2*maxBytes>>20))}
}

// streamReason says what makes room in a stream, up to the command that enlarges it.
func (c *Connection) streamReason(stream string) string {
	switch stream {
	case bus.Results:
		return "It does not hold the results of an hour. Shorten --results-ttl, or enlarge it"
	case bus.Sessions:
		return "Remove conversations (" + c.Command("sessions", "rm", "SESSION") + "), shorten --sessions-ttl, or enlarge it"
	case bus.Outbox:
		return "Notifications wait for channels that do not accept them: see stevedore channels, or enlarge it"
	case bus.Dead:
		return "Retry or remove dead letters (" + c.Command("dead", "ls") + "), or enlarge it"
	}
	if strings.HasPrefix(stream, "OBJ_") {
		return "Results are cut to what fits. Remove artifacts (" + c.Command("artifacts", "rm", "ID") + "), or make room on the disk of " +
			"the data directory and restart stevedore up. What removed artifacts leave goes after an hour, or with"
	}
	return "Calls wait for workers: start more, or enlarge it"
}
