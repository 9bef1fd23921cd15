package commands

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
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

// The status does not say that no heartbeat is scheduled if that could not be read, as with streams that are missing.
func TestStatusKnowsNoHeartbeats(t *testing.T) {
	srv := bustest.Listen(t)
	for _, form := range []string{"", "--json"} {
		var out bytes.Buffer
		args := append([]string{"status", "--server", srv.URL(), "--log-level", "off"}, strings.Fields(form)...)
		if code := run(t.Context(), args, strings.NewReader(""), &out, &out); code != 0 || !strings.Contains(out.String(), "heartbeats: ") ||
			strings.Contains(out.String(), "No heartbeat") || strings.Contains(out.String(), `"heartbeats":`) {
			t.Errorf("status %s: exit %d, %s", form, code, out.String())
		}
	}
}

// The status says how the last run of a heartbeat ended as the list of jobs does.
func TestStatusSaysHowAHeartbeatEnded(t *testing.T) {
	job := cron.Entry{Job: cron.Job{Name: "main"}, LastRun: &cron.Run{Outcome: tools.Failed, Message: "no credit"}}
	var out bytes.Buffer
	if err := printStatus(&out, status.Status{}, []agents.Schedule{{EntryJSON: job.Fields(), Used: new(agent.Total)}}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "failed: no credit") {
		t.Errorf("%s", out.String())
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

// The line of a tenant with several problems says how many there are.
func TestStatusOfATenantCountsItsProblems(t *testing.T) {
	read := &status.Status{Problems: []status.Problem{{Text: "No worker answers."}}, Errors: []string{"workers: timeout"}}
	for want, s := range map[string]*tenantStatus{
		"-":                              {Status: &status.Status{}},
		"the account is shared":          {Error: "the account is shared"},
		"1 of 2: No worker answers.":     {Status: read},
		"1 of 3: the account is shared":  {Error: "the account is shared", Status: read},
		"could not read the workers: no": {Status: &status.Status{Errors: []string{"workers: no"}}},
	} {
		if row := s.row(); row[len(row)-1] != want {
			t.Errorf("%v, want %q", row, want)
		}
	}
}

// The list of tenants says what the state of one leaves out. As JSON, the state itself has it.
func TestStatusOfTenantsHasTheirNotes(t *testing.T) {
	tenants := []*tenantStatus{{Tenant: "red", Status: &status.Status{Notes: []string{"Only some jobs were looked at."}}}, {Tenant: "blue", Error: "gone"}}
	for asJSON, want := range map[bool]string{false: "\nred: Only some jobs were looked at.\n", true: `"notes":["Only some jobs were looked at."]`} {
		var out bytes.Buffer
		if err := listTenants(&out, tenants, asJSON); err != nil || strings.Count(out.String(), "Only some") != 1 || !strings.Contains(out.String(), want) {
			t.Errorf("%v, %s", err, out.String())
		}
	}
}
