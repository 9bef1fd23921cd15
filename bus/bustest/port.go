package bustest

import (
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
// one, listen on port 0 instead. Until the test ends, no other FreePort of this machine
// returns the port, although nobody may listen on it yet.
func FreePort(t testing.TB) int {
	t.Helper()
	var err error
	for range 100 {
		port := firstFixedPort + rand.IntN(lastFixedPort-firstFixedPort)
		if err = reserve(t, port); err == nil {
			return port
		}
	}
	t.Fatalf("no free port between %d and %d: %v", firstFixedPort, lastFixedPort, err)
	return 0
}

// reserve holds the UDP port of the same number, which no server of a test needs: the
// system gives it to one process, and takes it back if that dies.
func reserve(t testing.TB, port int) error {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	held, err := net.ListenPacket("udp", address)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		_ = held.Close()
		return err
	}
	_ = l.Close()
	t.Cleanup(func() { _ = held.Close() })
	return nil
}

// FreeAddress returns the HOST:PORT of a FreePort.
func FreeAddress(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(FreePort(t)))
}
