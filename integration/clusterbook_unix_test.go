//go:build unix

package integration

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/integration/slow"
)

// The cluster of docs/grow.md with TLS and tenants works word for word, apart from its ports.
func TestClusterWithTLSByTheBook(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	followCluster(t, section(t, "grow.md", "### Three servers with TLS\n"))
}

// The cluster of docs/operate.md works word for word, apart from its ports and the alerts, from the first
// server to the restored backup. STEVEDORE_BOOK selects the test, which takes two minutes.
func TestClusterByTheBook(t *testing.T) {
	if os.Getenv("STEVEDORE_BOOK") == "" {
		t.Skip("STEVEDORE_BOOK is not set; see make book")
	}
	page := section(t, "operate.md", "### A cluster on one machine\n")
	before, after, _ := strings.Cut(page, "\nPrometheus with the shipped rules.")
	_, after, found := strings.Cut(after, "\nKill a worker,")
	if !found {
		t.Fatal("the page starts Prometheus in another way")
	}
	for _, line := range []string{"sleep 15\n", "sleep 330\n", "promtool query"} { // the alerts
		rest, end, _ := strings.Cut(after, line)
		if line[len(line)-1] != '\n' {
			_, end, _ = strings.Cut(end, "\n")
		}
		after = rest + end
	}
	followCluster(t, before+strings.Replace(after, "--wait 1s\n", "--wait 1s || [ $? = 6 ]\n", 1))
}

// section returns a section of a page in docs, up to the next title.
func section(t *testing.T, page, title string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../docs", page))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), title)
	if !found {
		t.Fatalf("docs/%s has no section %q", page, title)
	}
	return regexp.MustCompile(`(?ms)^##+ .*`).ReplaceAllString(section, "")
}

// followCluster runs the blocks of a page with free ports, and with this test binary as nats-server.
func followCluster(t *testing.T, page string) {
	t.Helper()
	decades := map[string]string{}
	page = regexp.MustCompile(`\b1[468][0-9]{2}([0-9]|\$[1n])\b`).ReplaceAllStringFunc(page, func(port string) string {
		decade := port[:4]
		if decades[decade] == "" {
			decades[decade] = freeDecade(t)
		}
		return decades[decade] + port[4:]
	})
	programs := t.TempDir()
	exe, err := os.Executable()
	if err == nil {
		err = os.WriteFile(filepath.Join(programs, "nats-server"), fmt.Appendf(nil, "#!/bin/sh\n%s=nats-server exec %q \"$@\"\n", roleEnv, exe), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	followPage(t, page, programs)
}

// freeDecade returns the first four digits of ten ports that are free, below those that the system gives
// to connections.
func freeDecade(t *testing.T) string {
	t.Helper()
search:
	for range 100 {
		decade := 1100 + rand.IntN(2000)
		for digit := range 10 {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10*decade+digit))
			if err != nil {
				continue search
			}
			l.Close()
		}
		return fmt.Sprint(decade)
	}
	t.Fatal("no ten ports are free")
	return ""
}
