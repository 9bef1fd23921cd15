package bustest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Ports that no common system gives to programs that ask for any free port: Linux gives
// 32768 and above, macOS and Windows 49152 and above. So another test cannot receive the
// port of a server that has not started yet, or that restarts.
const firstFixedPort, lastFixedPort = 12000, 32000

// FreePort returns a port of 127.0.0.1 for a server that must find it again after a
// restart, or that other servers must know before it starts. If the port may be any free
// one, listen on port 0 instead.
func FreePort(t testing.TB) int {
	t.Helper()
	var err error
	for range 100 {
		port := firstFixedPort + rand.IntN(lastFixedPort-firstFixedPort)
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatalf("no free port between %d and %d: %v", firstFixedPort, lastFixedPort, err)
	return 0
}

// FreeAddress returns the HOST:PORT of a FreePort.
func FreeAddress(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(FreePort(t)))
}
