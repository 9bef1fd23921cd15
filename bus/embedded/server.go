// Package embedded runs a NATS server with JetStream in this process.
//
// The data directory contains the files of JetStream and the file credential, the password
// that every client needs. Only the owner may read it. The caller holds the lock of
// the directory.
//
// The server syncs each write before it acknowledges it, unless Config.NoSync is set. It
// stages atomic batches in memory (/dev/shm on Linux), which makes them several times as
// fast; a batch that was not acknowledged may then be stored in part after a power failure.
// After a full disk, the server restarts as soon as there is space again, because
// JetStream accepts nothing for a stream whose write failed. No acknowledged message is
// lost by that.
package embedded

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
)

// Config describes the server.
type Config struct {
	// Dir is the data directory; it contains JetStream's files and the credential.
	// The caller holds its lock.
	Dir string
	// Listen is HOST:PORT; port 0 picks a free port. Empty means no socket:
	// only this process can connect.
	Listen string
	// Cert and Key are PEM files. With them, clients of the socket need TLS.
	Cert, Key string
	// NoSync acknowledges a message before it is synced to the disk. That is
	// faster, but a power failure (not a crash of the process) can lose
	// acknowledged messages.
	NoSync bool
	// MaxStore limits the disk space that JetStream uses, in bytes. Default: what it
	// uses at the start, and three quarters of the free space. Streams that reserve more
	// keep it until their sizes are changed.
	MaxStore int64
	// Log receives the server's warnings and errors.
	Log zerolog.Logger
}

// Server is a NATS server in this process. After its disk was full, it restarts as
// soon as the disk has space again.
type Server struct {
	cfg       Config
	url       string
	password  string
	close     context.CancelFunc
	watching  sync.WaitGroup // restartWhenDiskHasSpace
	staging   *staging
	stopWatch func()
	store     os.FileInfo // the directory of the streams at the start

	diskFull atomic.Bool

	mu    sync.Mutex
	ns    *server.Server
	space int64 // for streams; see maxStore
}

// user is the only user of the server.
const user = "stevedore"

// startTimeout includes the recovery of large streams.
const startTimeout = time.Minute

// Start starts a server and returns when it accepts connections.
func Start(cfg Config) (*Server, error) {
	password, err := credential(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("start embedded server: %w", err)
	}
	s := &Server{cfg: cfg, password: password}
	if cfg.NoSync { // no client sends batches
		s.staging = &staging{}
	} else {
		s.staging = newStaging()
	}
	full := make(chan struct{}, 1)
	if s.ns, err = s.start(full); err != nil {
		s.staging.close(cfg.Dir)
		return nil, err
	}
	removeOld(memoryPath)
	s.stopWatch = func() {}
	s.store, err = os.Stat(filepath.Join(cfg.Dir, storeDir))
	if err == nil && s.staging.dir != "" {
		s.stopWatch, err = s.watchStreams()
	}
	if err != nil {
		stop(s.ns)
		s.staging.close(cfg.Dir)
		return nil, fmt.Errorf("start embedded server: %w", err)
	}
	if addr := s.ns.Addr(); addr != nil {
		scheme, address := "nats", DialAddr(addr)
		if secure, err := cfg.tlsConfig(); err == nil && secure != nil {
			scheme, address = "tls", certifiedHost(secure, address)
		}
		s.url = fmt.Sprintf("%s://%s:%s@%s", scheme, user, password, address)
		s.cfg.Listen = addr.String() // keep the port after a restart
	}
	var watched context.Context
	watched, s.close = context.WithCancel(context.Background())
	s.watching.Go(func() { s.restartWhenDiskHasSpace(watched, full) })
	return s, nil
}

// start starts the server and returns when it accepts connections. It sends to
// full when the server reports that the disk is full.
func (s *Server) start(full chan<- struct{}) (_ *server.Server, err error) {
	cfg := s.cfg
	var limit int64
	s.space, limit = cfg.maxStore()
	opts := &server.Options{
		ServerName:        "stevedore",
		JetStream:         true,
		StoreDir:          cfg.Dir,
		SyncAlways:        !cfg.NoSync,
		JetStreamMaxStore: limit,
		NoSigs:            true,
		DontListen:        cfg.Listen == "",

		CustomClientAuthentication: passwordAuth(s.password),
		AuthTimeout:                10, // seconds; on a busy machine, a client needed more than the 2 of the server
	}
	if opts.SyncAlways {
		opts.Metadata = map[string]string{bus.MinBatchKey: strconv.Itoa(s.staging.minBatch())}
	}
	if cfg.Listen != "" {
		if opts.Host, opts.Port, err = splitListen(cfg.Listen); err != nil {
			return nil, err
		}
		opts.PingInterval, opts.MaxPingsOut = 10*time.Second, 2 // a connection that is gone gets requests until then
	}
	if opts.TLSConfig, err = cfg.tlsConfig(); err != nil {
		return nil, fmt.Errorf("start embedded server: %w", err)
	}
	if opts.TLSConfig != nil {
		opts.TLS, opts.TLSTimeout = true, 5
	}
	ns, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("start embedded server: %w", err)
	}
	fatal := make(chan string, 1)
	ns.SetLoggerV2(&serverLog{log: cfg.Log, fatal: fatal, full: full}, false, false, false)
	ns.Start()
	if err := awaitReady(ns, fatal); err != nil {
		ns.Shutdown()
		return nil, fmt.Errorf("start embedded server in %q on %q: %w", cfg.Dir, cfg.Listen, err)
	}
	s.linkBatches()
	return ns, nil
}

// DialAddr replaces the unspecified address by one that a client of this host can dial.
func DialAddr(addr net.Addr) string {
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
	}
	return addr.String()
}

// ErrAddressInUse is the error of Start if another process listens on Config.Listen.
var ErrAddressInUse = errors.New("the address is in use by another process, perhaps another worker; connect to that one, or listen on another port")

// awaitReady polls, because the server reports a port in use only in its log.
func awaitReady(ns *server.Server, fatal <-chan string) error {
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); {
		if ns.ReadyForConnections(20 * time.Millisecond) {
			return nil
		}
		select {
		case reason := <-fatal:
			if strings.Contains(reason, "address already in use") {
				return ErrAddressInUse
			}
			return errors.New(reason)
		default:
		}
	}
	return fmt.Errorf("not ready after %s", startTimeout)
}

// splitListen splits HOST:PORT. The server uses port -1 for "any free port".
func splitListen(listen string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(listen)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("listen address %q: want HOST:PORT, such as 127.0.0.1:4222", listen)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	return host, port, nil
}

// URL is the address for other processes, including the credential. It is empty
// if the server has no socket.
func (s *Server) URL() string { return s.url }

// ClientConfig returns cfg changed so that bus.Connect connects to s within this
// process, without a socket.
func (s *Server) ClientConfig(cfg bus.Config) bus.Config {
	cfg.Server, cfg.Context = "", ""
	cfg.InProcess, cfg.User, cfg.Password = s, user, s.password
	s.mu.Lock()
	defer s.mu.Unlock()
	if js := s.ns.JetStreamConfig(); js != nil {
		cfg.DiskSpace = cmp.Or(s.space, js.MaxStore)
	}
	return cfg
}

func (s *Server) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	ns := s.ns
	s.mu.Unlock()
	return ns.InProcessConn()
}

// Close stops the server. Every acknowledged message is on disk.
func (s *Server) Close() {
	s.close()
	s.watching.Wait()
	s.stopWatch()
	stop(s.ns)
	s.staging.close(s.cfg.Dir)
}

func stop(ns *server.Server) {
	ns.Shutdown()
	ns.WaitForShutdown()
}

// passwordAuth admits clients that know the password. The server's own password
// option would log a warning about plain text at each start.
type passwordAuth string

func (password passwordAuth) Check(c server.ClientAuthentication) bool {
	opts := c.GetOpts()
	return opts.Username == user && subtle.ConstantTimeCompare([]byte(opts.Password), []byte(password)) == 1
}

// serverLog forwards the server's warnings and errors and drops its notices.
type serverLog struct {
	log   zerolog.Logger
	fatal chan<- string
	full  chan<- struct{}
}

func (l *serverLog) Noticef(string, ...any) {}
func (l *serverLog) Debugf(string, ...any)  {}
func (l *serverLog) Tracef(string, ...any)  {}

// rebuilds are parts of the warnings with which the server makes an index anew from the messages
// after a kill. Nothing is lost then.
var rebuilds = []string{"will rebuild", "Recovering stream state from index", "attempting to recover using linear scan"}

func (l *serverLog) Warnf(format string, args ...any) {
	text, level := fmt.Sprintf(format, args...), zerolog.WarnLevel
	if slices.ContainsFunc(rebuilds, func(part string) bool { return strings.Contains(text, part) }) {
		level = zerolog.DebugLevel
	}
	l.log.WithLevel(level).Str("text", text).Msg("warning from the embedded server")
}

func (l *serverLog) Errorf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	l.log.Error().Str("text", text).Msg("error from the embedded server")
	if isDiskFullLog(text) {
		select {
		case l.full <- struct{}{}:
		default:
		}
	}
}

func (l *serverLog) Fatalf(format string, args ...any) {
	select {
	case l.fatal <- fmt.Sprintf(format, args...):
	default:
	}
}
