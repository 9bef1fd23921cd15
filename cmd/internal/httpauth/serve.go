package httpauth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/netutil"
)

// maxConnections is how many clients are connected at once. The others wait. Without a limit,
// they could take the files that the rest of the process needs.
const maxConnections = 1000

// CheckAddress returns an error if address is not HOST:PORT. An empty host means
// 127.0.0.1. loopback reports whether only this machine can connect.
func CheckAddress(address string) (normal string, loopback bool, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", false, fmt.Errorf("address %q: want HOST:PORT, such as 127.0.0.1:8080", address)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", false, fmt.Errorf("address %q: want a port from 0 to 65535; port 0 selects a free port", address)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	return net.JoinHostPort(host, port), host == "localhost" || err == nil && ip.IsLoopback(), nil
}

// Listen listens on address, on loopback if it names no host.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	address, _, err := CheckAddress(address)
	if err != nil {
		return nil, err
	}
	return new(net.ListenConfig).Listen(ctx, "tcp", address)
}

// Serve answers requests on l until stop is called. stop ends the contexts of running
// requests, waits up to a second for them, and closes l. failed receives the error if
// the server ends before that.
//
// Headers have a deadline and a limit. A body must arrive at a minimum rate; limit its size
// in the handler with http.MaxBytesReader. A response can be an endless stream of events.
// At most 1,000 clients are connected at once.
func Serve(l net.Listener, h http.Handler, failed func(error)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	server := &http.Server{
		Handler: withBodyDeadline(h), BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(netutil.LimitListener(l, maxConnections)); !errors.Is(err, http.ErrServerClosed) {
			failed(err)
		}
	})
	return func() {
		cancel()
		deadline, done := context.WithTimeout(context.Background(), time.Second)
		defer done()
		if server.Shutdown(deadline) != nil {
			_ = server.Close()
		}
		serving.Wait()
	}
}
