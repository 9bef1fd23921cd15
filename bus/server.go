package bus

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"
)

// ServerConfig describes the embedded server.
type ServerConfig struct {
	// Dir is the data directory; JetStream and the credential are kept in it.
	// The caller holds its lock.
	Dir string
	// Listen is HOST:PORT; port 0 picks a free one. Empty means no socket:
	// only this process can connect.
	Listen string
	// NoSync leaves it to the system when bytes reach the disk: faster, and an
	// acknowledged message can be lost with the machine's power (not with the
	// process). By default the server syncs before it acknowledges.
	NoSync bool
	// MaxStore bounds JetStream's use of the disk, in bytes. Default: the
	// server's, three quarters of what is free.
	MaxStore int64
	// Log takes the server's warnings and errors.
	Log zerolog.Logger
}

// Server is a NATS server in this process, behind a credential of its own. When
// its disk was full and has room again, it starts anew.
type Server struct {
	cfg      ServerConfig
	url      string
	password string
	closing  context.Context // ends when Close begins
	close    context.CancelFunc
	revived  chan struct{} // closed when nothing starts it anew any more

	mu sync.Mutex
	ns *server.Server
}

// serverUser is the one user of an embedded server.
const serverUser = "stevedore"

// startTimeout covers the recovery of large streams at start.
const startTimeout = time.Minute

// StartServer starts a server and returns when it accepts connections.
func StartServer(cfg ServerConfig) (*Server, error) {
	password, err := credential(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("start embedded server: %w", err)
	}
	s := &Server{cfg: cfg, password: password, revived: make(chan struct{})}
	s.closing, s.close = context.WithCancel(context.Background())
	full := make(chan struct{}, 1)
	if s.ns, err = s.start(full); err != nil {
		return nil, err
	}
	if addr := s.ns.Addr(); addr != nil {
		s.url = fmt.Sprintf("nats://%s:%s@%s", serverUser, password, reachable(addr))
		s.cfg.Listen = addr.String() // the same when it starts anew
	}
	if js := s.ns.JetStreamConfig(); js != nil {
		s.cfg.MaxStore = js.MaxStore // by default a part of what is free now
	}
	go s.revive(full)
	return s, nil
}

// start starts the server and returns when it accepts connections. It sends to
// full when the server finds no room on the disk.
func (s *Server) start(full chan<- struct{}) (_ *server.Server, err error) {
	cfg := s.cfg
	opts := &server.Options{
		ServerName:        "stevedore",
		JetStream:         true,
		StoreDir:          cfg.Dir,
		SyncAlways:        !cfg.NoSync,
		JetStreamMaxStore: cfg.MaxStore,
		NoSigs:            true,
		DontListen:        cfg.Listen == "",

		CustomClientAuthentication: ownerOnly(s.password),
	}
	if cfg.Listen != "" {
		if opts.Host, opts.Port, err = splitListen(cfg.Listen); err != nil {
			return nil, err
		}
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
	return ns, nil
}

// reachable makes an address that can be dialed of one that means "all".
func reachable(addr net.Addr) string {
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
	}
	return addr.String()
}

// awaitReady polls, because the server tells of a port that is taken only in
// its log.
func awaitReady(ns *server.Server, fatal <-chan string) error {
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); {
		if ns.ReadyForConnections(20 * time.Millisecond) {
			return nil
		}
		select {
		case reason := <-fatal:
			if strings.Contains(reason, "address already in use") {
				return errors.New("the address is in use by another process, perhaps a worker of yours; connect to that one, or listen on another port (port 0 takes a free one)")
			}
			return errors.New(reason)
		default:
		}
	}
	return fmt.Errorf("not ready after %s", startTimeout)
}

// splitListen takes HOST:PORT apart for the server, whose word for "any free
// port" is -1.
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

// URL is how other processes connect, credential included; empty without a
// socket.
func (s *Server) URL() string { return s.url }

// Connect returns cfg changed to connect to s from this process, without a
// socket.
func (s *Server) Connect(cfg Config) Config {
	cfg.Server, cfg.Context = "", ""
	cfg.InProcess, cfg.User, cfg.Password = s, serverUser, s.password
	s.mu.Lock()
	defer s.mu.Unlock()
	if js := s.ns.JetStreamConfig(); js != nil {
		cfg.room = js.MaxStore
	}
	return cfg
}

// InProcessConn implements nats.InProcessConnProvider.
func (s *Server) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	ns := s.ns
	s.mu.Unlock()
	return ns.InProcessConn()
}

// Close stops the server; everything acknowledged is on disk.
func (s *Server) Close() {
	s.close()
	<-s.revived
	stop(s.ns)
}

func stop(ns *server.Server) {
	ns.Shutdown()
	ns.WaitForShutdown()
}

// ownerOnly lets in who knows the password. The server's own password option
// would warn of plain text at each start.
type ownerOnly string

func (password ownerOnly) Check(c server.ClientAuthentication) bool {
	opts := c.GetOpts()
	return opts.Username == serverUser && subtle.ConstantTimeCompare([]byte(opts.Password), []byte(password)) == 1
}

// serverLog passes the server's worries on; its notices are of no use to our
// users.
type serverLog struct {
	log   zerolog.Logger
	fatal chan<- string
	full  chan<- struct{}
}

func (l *serverLog) Noticef(string, ...any) {}
func (l *serverLog) Debugf(string, ...any)  {}
func (l *serverLog) Tracef(string, ...any)  {}

func (l *serverLog) Warnf(format string, args ...any) {
	l.log.Warn().Str("text", fmt.Sprintf(format, args...)).Msg("embedded server warns")
}

func (l *serverLog) Errorf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	l.log.Error().Str("text", text).Msg("embedded server reports an error")
	if saysFull(text) {
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
