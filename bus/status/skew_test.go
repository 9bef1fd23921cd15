package status_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/status"
)

// The status names a server whose clock is wrong, seen through a link that changes the time of its answers, and only such a one.
func TestWrongClockIsNamed(t *testing.T) {
	t.Parallel()
	s := bustest.Listen(t)
	_, host, _ := strings.Cut(s.URL(), "@")
	for years, want := range map[int]string{0: "", 1: "The server's clock differs by ", -1: "The server's clock differs by -"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				client, err := l.Accept()
				if err != nil {
					return
				}
				server, err := net.Dial("tcp", host)
				if err != nil {
					client.Close()
					return
				}
				go func() { _, _ = bufio.NewReader(client).WriteTo(server); server.Close() }()
				go func() {
					defer client.Close()
					year := time.Now().UTC().Year()
					for r := bufio.NewReader(server); ; {
						line, err := r.ReadBytes('\n')
						if err != nil {
							return
						}
						line = bytes.ReplaceAll(line, fmt.Appendf(nil, `"ts":"%d`, year), fmt.Appendf(nil, `"ts":"%d`, year+years))
						if _, err := client.Write(line); err != nil {
							return
						}
					}
				}()
			}
		}()
		b, err := bus.Connect(t.Context(), bus.Config{Server: strings.Replace(s.URL(), host, l.Addr().String(), 1), Log: bustest.Log(t)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		if _, err := admin.Provision(t.Context(), b, admin.Nothing); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, p := range status.Read(t.Context(), b).Problems {
			if p.Code == status.ClockSkew {
				got = p.Text
			}
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("a clock %d years ahead: %q, want %q", years, got, want)
		}
	}
}
