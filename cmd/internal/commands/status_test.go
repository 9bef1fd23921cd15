package commands

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
)

// A report says once that no worker answers.
func TestStatusNamesAMissingWorkerOnce(t *testing.T) {
	problem := status.Problem{Code: status.NoWorker, Text: "No worker answers. Calls wait until one starts."}
	var out bytes.Buffer
	if err := printStatus(&out, status.Status{Problems: []status.Problem{problem}}, nil); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "No worker answers"); n != 1 {
		t.Errorf("%d times in %s", n, out.String())
	}
}

// A queue with a backlog shows whose calls are first.
func TestStatusNamesTheFirstInLine(t *testing.T) {
	first := []status.Backlog{{Session: "flood", Calls: 150}, {Session: "b", Calls: 30}, {Session: "c", Calls: 15}, {Session: "d", Calls: 5}}
	var out bytes.Buffer
	if err := printStatus(&out, status.Status{Queues: []status.Queue{{Name: "default", Waiting: 900, First: first}, {Name: "idle"}}}, nil); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "flood 150, b 30, c 15, 1 more") {
		t.Errorf("%s", out.String())
	}
}

// The doctor wants replicas of the streams of a cluster only. A leaf server gives its own name as
// that of its cluster.
func TestDoctorWantsReplicasInAClusterOnly(t *testing.T) {
	for leader, want := range map[string]int{"": 0, "n1": 1} {
		d := doctor{}
		d.examineReplicas(status.Status{Server: status.Server{Cluster: "leaf"}, Streams: []status.Stream{{Name: "S", Leader: leader, Replicas: 1}}})
		if len(d.findings) != want {
			t.Errorf("leader %q: %+v", leader, d.findings)
		}
	}
}

// The doctor names the workers that an upgrade left out, also if all of them are old.
func TestDoctorComparesVersions(t *testing.T) {
	own := cli.ReadVersion().Version
	for other, want := range map[string]int{own: 0, "0.0.1": 1} {
		d := doctor{}
		d.examineVersions(status.Status{Workers: []status.Worker{{Name: "a", Version: other}}})
		if len(d.findings) != want {
			t.Errorf("worker of version %s: %+v", other, d.findings)
		}
	}
}

// The doctor creates no stream, also if the status does not know which ones are missing.
func TestDoctorChangesNothing(t *testing.T) {
	b := bustest.Dial(t, bustest.Server(t), bus.Config{})
	d := doctor{}
	d.examineSettings(t.Context(), b, status.Status{Errors: []string{"streams: permissions violation"}})
	if _, err := b.Stream(t.Context(), bus.Calls); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("the stream of calls: %v", err)
	}
}
