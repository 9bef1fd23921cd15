package bus

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/synadia-io/orbit.go/natscontext"

	"github.com/stevedore-bus/stevedore/bus/internal/nkey"
	"github.com/stevedore-bus/stevedore/bus/internal/publisher"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// ErrUnreachable means that no server answered. The text names the server.
var ErrUnreachable = errors.New("bus unreachable")

// ErrNoCredential means that the server wants a credential and the configuration has none.
var ErrNoCredential = errors.New("the server requires a credential, and none was given")

// ErrNotNATS means that something accepts connections and does not greet as a NATS server does.
var ErrNotNATS = errors.New("a program that does not greet as a NATS server listens")

// ErrOldServer means that the server lacks what this version needs.
var ErrOldServer = errors.New("the server is too old; Stevedore needs nats-server 2.14 or newer")

// Bus is a connection to NATS. It is safe for concurrent use.
type Bus struct {
	Subjects
	cfg    Config
	log    zerolog.Logger
	nc     *nats.Conn
	js     jetstream.JetStream
	api    jsapi.API
	out    *publisher.Publisher
	closed chan struct{}
	key    *nkey.Key // nil without Config.NKey

	handles sync.Map          // by name: jetstream.Stream or jetstream.KeyValue
	kinds   map[string]string // the streams, by the first token of their subjects
	space   *Space
	denials denials
	watches watches
	reads   *jointReads

	background sync.WaitGroup // ends when the connection is closed
}

// Connect connects and returns after the server has answered. If the connection is
// lost later, the client reconnects automatically until Closed.
func Connect(ctx context.Context, cfg Config) (*Bus, error) {
	cfg = cfg.withDefaults()
	subjects, err := NewSubjects(cfg.Prefix)
	if err != nil {
		return nil, err
	}
	b := &Bus{Subjects: subjects, cfg: cfg, log: cfg.Log, closed: make(chan struct{}), kinds: streamKinds(subjects)}
	b.reads = newJointReads()
	b.space = newSpace(b)
	if b.nc, err = dial(b); err != nil {
		return nil, err
	}
	if b.js, err = openJetStream(b); err == nil {
		b.api = jsapi.New(b.js)
		err = checkServer(ctx, b) // before any other request: the server denies the inbox once
	}
	if err == nil && !cfg.AnyFormat {
		err = b.checkFormats(ctx)
	}
	if err == nil {
		b.out, err = publisher.New(b.nc, b.cfg.Timeout, b.log, b.prefix, b.Streams(b.cfg), func() int { return minBatch(b) })
	}
	if IsClosed(err) { // the server has ended the connection since, and said why
		err = b.ClosedErr()
	}
	if err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// Dial connects without JetStream, as the system account does.
func Dial(cfg Config) (*nats.Conn, error) {
	return dial(&Bus{cfg: cfg.withDefaults(), log: cfg.Log, closed: make(chan struct{})})
}

func dial(b *Bus) (*nats.Conn, error) {
	opts, err := options(b)
	if err != nil {
		return nil, err
	}
	nc, err := connect(b, opts)
	switch at := b.cfg.address(); {
	case errors.Is(err, nats.ErrAuthorization) && !b.cfg.hasCredential():
		return nil, fmt.Errorf("%w: %s: %w: %w", ErrUnreachable, at, ErrNoCredential, err)
	case errors.Is(err, nats.ErrAuthorization):
		return nil, fmt.Errorf("%w: %s rejects the credential: %w", ErrUnreachable, at, err)
	case err != nil && isTLS(err):
		return nil, fmt.Errorf("%w: no encrypted connection to %s: %w", ErrUnreachable, at, err)
	case err != nil && strings.Contains(err.Error(), "malformed HTTP"): // the library passes on what another port sends
		return nil, fmt.Errorf("%w: %w at %s, or does not speak WebSocket", ErrUnreachable, ErrNotNATS, at)
	case err != nil && isForeign(err):
		return nil, fmt.Errorf("%w: %w at %s: %w", ErrUnreachable, ErrNotNATS, at, err)
	case err != nil:
		return nil, fmt.Errorf("%w: no NATS server answers at %s: %w", ErrUnreachable, at, withoutURL(err))
	}
	if b.key != nil {
		b.key.Connected(nc)
	}
	return nc, nil
}

// connect connects to the first server that accepts the client.
func connect(b *Bus, opts []nats.Option) (*nats.Conn, error) {
	if b.cfg.Context != "" {
		nc, settings, err := natscontext.Connect(b.cfg.Context, opts...)
		if err == nil && b.cfg.Domain == "" && b.cfg.APIPrefix == "" {
			b.cfg.Domain, b.cfg.APIPrefix = settings.JSDomain, settings.JSAPIPrefix
		}
		return nc, err
	}
	nc, err := nats.Connect(b.cfg.Server, opts...)
	if servers := strings.Split(b.cfg.Server, ","); errors.Is(err, nats.ErrNoServers) && len(servers) > 1 {
		for _, server := range servers { // a server that is down hides why another one refuses
			if nc, err = nats.Connect(server, opts...); !errors.Is(err, nats.ErrNoServers) {
				break
			}
		}
	}
	return nc, err
}

// isTLS reports whether a server answers, and the client does not accept its certificate or the other way round.
func isTLS(err error) bool {
	_, unverified := errors.AsType[*tls.CertificateVerificationError](err)
	op, ok := errors.AsType[*net.OpError](err)
	return unverified || ok && op.Op == "remote error" || errors.Is(err, nats.ErrSecureConnWanted) || errors.Is(err, nats.ErrTLS)
}

// isForeign reports whether a program accepts the connection and does not greet as a NATS server.
func isForeign(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "read" || errors.Is(err, io.EOF) || errors.Is(err, nats.ErrNoInfoReceived)
}

// openJetStream returns the JetStream context of the configured domain or prefix.
func openJetStream(b *Bus) (jetstream.JetStream, error) {
	opts := []jetstream.JetStreamOpt{
		jetstream.WithDefaultTimeout(b.cfg.Timeout),
	}
	switch {
	case b.cfg.APIPrefix != "":
		return jetstream.NewWithAPIPrefix(b.nc, strings.TrimSuffix(b.cfg.APIPrefix, "."), opts...)
	case b.cfg.Domain != "":
		return jetstream.NewWithDomain(b.nc, b.cfg.Domain, opts...)
	}
	return jetstream.New(b.nc, opts...)
}

// syncQueue is how many messages a subscription that a caller reads holds: more than a batch of a stream. The default of
// the library takes half a MB for each read.
const syncQueue = 4096

func options(b *Bus) ([]nats.Option, error) {
	c := b.cfg
	opts := []nats.Option{
		nats.Name(c.Name),
		nats.Timeout(c.Timeout),
		nats.MaxReconnects(-1),
		nats.CustomReconnectDelay(reconnectDelay),
		nats.PingInterval(10 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.SyncQueueLen(syncQueue),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			b.denials.forget()
			if err != nil {
				b.log.Warn().Err(err).Msg("disconnected from the bus")
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			b.log.Info().Str("server", nc.ConnectedUrlRedacted()).Msg("reconnected to the bus")
		}),
		// The publish call does not return the error of a denied publish.
		nats.ErrorHandler(func(nc *nats.Conn, _ *nats.Subscription, err error) {
			if inbox := cmp.Or(nc.Opts.InboxPrefix, "_INBOX"); !b.denials.report(err, inbox) {
				b.remember(err, inbox)
				b.log.Error().Err(err).Msg("error from the bus")
			}
		}),
		nats.ClosedHandler(func(*nats.Conn) { close(b.closed) }),
	}
	if c.NKey != "" {
		b.key = nkey.New(c.NKey)
		key, err := b.key.Options()
		if err != nil {
			return nil, err
		}
		opts = append(opts, key...)
	}
	for _, o := range []struct {
		given  bool
		option nats.Option
	}{
		{c.Creds != "", nats.UserCredentials(c.Creds)}, {c.User != "", nats.UserInfo(c.User, c.Password)}, {c.Token != "", nats.Token(c.Token)},
		{c.TLSCert != "", nats.ClientCert(c.TLSCert, c.TLSKey)}, {c.TLSCA != "", nats.RootCAs(c.TLSCA)},
		{c.InboxPrefix != "", nats.CustomInboxPrefix(c.InboxPrefix)},
		{c.InProcess != nil, nats.InProcessServer(c.InProcess)}, {c.Dialer != nil, nats.SetCustomDialer(c.Dialer)},
	} {
		if o.given {
			opts = append(opts, o.option)
		}
	}
	return opts, nil
}

// reconnectDelay returns a random delay of up to 5 s, so that a hundred workers do not
// reconnect at the same time.
func reconnectDelay(attempts int) time.Duration {
	limit := min(100*time.Millisecond<<min(attempts, 6), 5*time.Second)
	return time.Millisecond + rand.N(limit)
}

// checkServer returns an error if the server is too old or has no JetStream.
func checkServer(ctx context.Context, b *Bus) error {
	var major, minor int
	version := b.nc.ConnectedServerVersion()
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err == nil && (major < 2 || major == 2 && minor < 14) {
		return fmt.Errorf("connect to %s: version %s: %w", b.nc.ConnectedUrlRedacted(), version, ErrOldServer)
	}
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout/3) // a cluster without a leader does not answer
	defer cancel()
	err := b.WatchDenial(ctx, b.api.Subject("INFO"), func(ctx context.Context) error {
		_, err := b.js.AccountInfo(ctx)
		return err
	})
	switch {
	case err == nil:
		b.background.Go(func() { leaveIsolatedServer(b) }) // this user may ask, so a missing answer means something
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled) && b.cfg.Domain != "":
		return fmt.Errorf("%w: no server of the JetStream domain %q answers %s; is its leaf node connected?", ErrUnreachable,
			b.cfg.Domain, b.nc.ConnectedUrlRedacted())
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount), errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, ErrNoInbox):
		return fmt.Errorf("connect to %s: %w", b.nc.ConnectedUrlRedacted(), err)
	}
	// Ignore other errors: the user may not have the permission to ask.
	return nil
}

// MinBatchKey is the key in the metadata of a server whose value is the smallest atomic
// batch that is faster there than single publishes. Only a server that syncs every write and
// has no replicas has one, such as the embedded server: it syncs a batch once. On other
// servers, batches are slower.
const MinBatchKey = "stevedore.min_batch"

// minBatch returns the value of MinBatchKey, or 0. The server tells it to each user who may
// ask about himself.
func minBatch(b *Bus) int {
	const subject = "$SYS.REQ.USER.INFO"
	ctx, cancel := context.WithTimeout(context.Background(), b.cfg.Timeout)
	defer cancel()
	var reply struct {
		Server struct{ Metadata map[string]string }
	}
	_ = b.WatchDenial(ctx, subject, func(ctx context.Context) error {
		msg, err := b.nc.RequestWithContext(ctx, subject, nil)
		if err != nil {
			return err
		}
		return json.Unmarshal(msg.Data, &reply)
	})
	n, _ := strconv.Atoi(reply.Server.Metadata[MinBatchKey]) // 0 if there is none
	return n
}

// Close closes the connection immediately, and returns when nothing of the bus runs any more. A
// publish without an acknowledgement may or may not be stored.
func (b *Bus) Close() {
	if b.out != nil {
		b.out.Stop()
	}
	b.nc.Close()
	<-b.closed
	if b.out != nil {
		b.out.Wait()
	}
	b.background.Wait()
}

// Closed is closed when the connection is closed: by Close, or because the server
// rejects the credential.
func (b *Bus) Closed() <-chan struct{} { return b.closed }

// Conn returns the NATS connection, for requests, services and core subscriptions.
func (b *Bus) Conn() *nats.Conn { return b.nc }

// JetStream returns the JetStream context.
func (b *Bus) JetStream() jetstream.JetStream { return b.js }

// API returns the JetStream API of the same account.
func (b *Bus) API() jsapi.API { return b.api }

// Config returns the configuration with its defaults.
func (b *Bus) Config() Config { return b.cfg }
