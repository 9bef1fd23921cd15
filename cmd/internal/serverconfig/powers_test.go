package serverconfig

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
)

var update = flag.Bool("update", false, "write the table of logins and powers to docs/security.md")

// powers are what the API of JetStream and the subjects of streams do for a login. The server does not
// compare what it publishes for one with the permissions of that login: to the deliver subject of a
// push consumer, the targets of mirrors, sources, republish and schedules, and the replies of requests.
var powers = []struct {
	name     string
	subjects []string // one of them is enough; {S} is a stream
}{
	{"create streams (mirrors, sources, republish)", []string{"$JS.API.STREAM.CREATE.{S}"}},
	{"change streams", []string{"$JS.API.STREAM.UPDATE.{S}", "$JS.API.STREAM.RESTORE.{S}", "$JS.API.STREAM.PEER.REMOVE.{S}", "$JS.API.STREAM.LEADER.STEPDOWN.{S}"}},
	{"delete or copy streams", []string{"$JS.API.STREAM.DELETE.{S}", "$JS.API.STREAM.SNAPSHOT.{S}"}},
	{"remove messages", []string{"$JS.API.STREAM.PURGE.{S}", "$JS.API.STREAM.MSG.DELETE.{S}"}},
	{"create consumers (any deliver subject)", []string{"$JS.API.CONSUMER.CREATE.{S}", "$JS.API.CONSUMER.CREATE.{S}.c", "$JS.API.CONSUMER.CREATE.{S}.c.f", "$JS.API.CONSUMER.DURABLE.CREATE.{S}.c"}},
	{"delete or pause consumers", []string{"$JS.API.CONSUMER.DELETE.{S}.c", "$JS.API.CONSUMER.PAUSE.{S}.c", "$JS.API.CONSUMER.UNPIN.{S}.c", "$JS.API.CONSUMER.LEADER.STEPDOWN.{S}.c"}},
	{"take messages of consumers", []string{"$JS.API.CONSUMER.MSG.NEXT.{S}.c", "$JS.ACK.{S}.c.1.1.1.1.1"}},
	{"read messages (any reply subject)", []string{"$JS.API.STREAM.MSG.GET.{S}", "$JS.API.DIRECT.GET.{S}", "$JS.API.DIRECT.GET.{S}.x"}},
	{"schedule messages (any target in the stream)", []string{"stevedore.schedule.cron.x"}},
	{"write results", []string{"stevedore.result.s.c", "stevedore.completion.s.c", "stevedore.claim.s.c", "stevedore.report.s.c"}},
	{"write notifications", []string{"stevedore.notify.console", "stevedore.notify.console.c"}},
	{"write calls of any session", []string{"stevedore.call.default.shell.s2.c", "stevedore.raw.default.x.s2.c"}},
	{"write keys and objects", []string{"$KV.stevedore_state.x", "$KV.stevedore_tasks.x", "$KV.stevedore_artifacts.x", "$O.stevedore_blobs.M.x"}},
}

// matches reports whether a pattern of permissions covers a subject.
func matches(pattern, subject string) bool {
	have, want := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range have {
		if token == ">" {
			return len(want) > i
		}
		if i >= len(want) || token != "*" && token != want[i] {
			return false
		}
	}
	return len(have) == len(want)
}

// The page on security says what each generated login can do. A change of a power changes the page.
func TestPowersAreDocumented(t *testing.T) {
	subjects, err := bus.NewSubjects("")
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Subjects: subjects, Listen: "127.0.0.1:4222", Tenants: []Tenant{{Name: "red", Sessions: []string{"s1"}, Queues: []string{"default"}, Bridges: []string{"chat"}}}}
	streams := streamsOf(subjects)

	var table strings.Builder
	var users []User
	for _, u := range c.Users() {
		if u.Name != "system" {
			users = append(users, u)
		}
	}
	table.WriteString("| power |")
	for _, u := range users {
		table.WriteString(" " + strings.TrimPrefix(u.Name, "red-") + " |")
	}
	table.WriteString("\n" + strings.Repeat("|---", len(users)+1) + "|\n")
	for _, p := range powers {
		table.WriteString("| " + p.name + " |")
		for _, u := range users {
			table.WriteString(" " + power(u, p.subjects, streams) + " |")
		}
		table.WriteString("\n")
	}

	const path, begin, end = "../../../docs/security.md", "<!-- powers -->\n", "<!-- end of powers -->"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	written, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatalf("%s has no table of powers", path)
	}
	if *update {
		err = os.WriteFile(path, []byte(before+begin+table.String()+end+after), 0o644)
	} else if written != table.String() {
		err = fmt.Errorf("run go test ./cmd/internal/serverconfig -run TestPowers -update, and read the difference: it is what a login can do\n%s", table.String())
	}
	if err != nil {
		t.Error(err)
	}
}

// power says for which streams a login may publish to one of the subjects.
func power(u User, subjects, streams []string) string {
	if len(u.publish) == 0 {
		return "all"
	}
	var can []string
	for _, stream := range streams {
		if slices.ContainsFunc(subjects, func(subject string) bool {
			subject = strings.ReplaceAll(subject, "{S}", stream)
			return slices.ContainsFunc(u.publish, func(pattern string) bool { return matches(pattern, subject) })
		}) {
			can = append(can, stream)
		}
	}
	switch {
	case len(can) == 0:
		return "-"
	case len(can) == len(streams):
		return "yes"
	}
	for i, name := range can {
		can[i] = "`" + strings.TrimPrefix(name, "STEVEDORE_") + "`"
	}
	return strings.Join(can, ", ")
}

// streamsOf returns the streams of a tenant, after one that is none.
func streamsOf(s bus.Subjects) []string {
	streams := []string{"OTHER"}
	for _, name := range []string{bus.Calls, bus.Results, bus.Ticks, bus.Outbox, bus.Sessions, bus.Dead} {
		streams = append(streams, s.StreamName(name))
	}
	for _, name := range []string{bus.StateBucket, bus.ArtifactsBucket, bus.TasksBucket} {
		streams = append(streams, "KV_"+s.BucketName(name))
	}
	return append(streams, "OBJ_"+s.BucketName(bus.BlobsBucket))
}
