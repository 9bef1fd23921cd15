package admin_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// setFormat makes a stream one of another version: without a minor version if that is "".
func setFormat(t *testing.T, b *bus.Bus, name, major string, subjects ...string) {
	t.Helper()
	c := config(t, b, name)
	c.Metadata = map[string]string{}
	if major != "" {
		c.Metadata[jsapi.FormatKey] = major
	}
	if len(subjects) > 0 {
		c.Subjects = subjects
	}
	if _, err := b.JetStream().UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// Connect, provision and backup refuse streams of formats without a step, name all of them, and
// change nothing.
func TestUnknownFormatIsRefused(t *testing.T) {
	for version, want := range map[string]string{
		"":    "no version instead of version 3",
		"1":   "version 1 instead of version 3",
		"4":   "version 4 instead of version 3",
		"one": `a damaged version, "one" instead of version 3`,
		"-1":  `a damaged version, "-1" instead of version 3`,
	} {
		s := bustest.Server(t)
		b := bustest.Connect(t, s, bus.Config{AnyFormat: true})
		if _, err := admin.Provision(t.Context(), b, admin.Nothing); err != nil {
			t.Fatal(err)
		}
		if _, err := b.JetStream().Publish(t.Context(), b.Result("s", "former"), []byte("{}")); err != nil {
			t.Fatal(err)
		}
		if _, err := b.JetStream().Publish(t.Context(), b.Session("s"), []byte("{}")); err != nil {
			t.Fatal(err)
		}
		setFormat(t, b, b.StreamName(bus.Results), version)
		setFormat(t, b, b.StreamName(bus.Sessions), version)
		_, connect := bus.Connect(t.Context(), s.ClientConfig(bus.Config{}))
		_, check := admin.Provision(t.Context(), b, admin.Nothing)
		_, update := admin.Provision(t.Context(), b, admin.Everything)
		dir := filepath.Join(t.TempDir(), "backup")
		_, backup := admin.Backup(t.Context(), b, dir, func(string) {})
		for name, err := range map[string]error{"connect": connect, "provision": check, "update": update, "backup": backup} {
			if _, ok := errors.AsType[*jsapi.FormatError](err); !ok {
				t.Errorf("%s of version %q: %v", name, version, err)
				continue
			}
			if text := err.Error(); !strings.HasSuffix(text, ": STEVEDORE_RESULTS, STEVEDORE_SESSIONS: "+want) {
				t.Errorf("%s of version %q: %v, want %q", name, version, err, want)
			}
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("version %q: a backup was made: %v", version, err)
		}
		if got := config(t, b, b.StreamName(bus.Results)).Metadata[jsapi.FormatKey]; got != version || bustest.Messages(t, b, bus.Results) != 1 {
			t.Errorf("version %q: the stream was changed to %q", version, got)
		}
	}
}

// A stream that somebody made by hand gets its version only with all settings. If the server refuses one of them,
// each try fails, until the stream is removed.
func TestStreamMadeByHand(t *testing.T) {
	b := bustest.Dial(t, bustest.Server(t), bus.Config{AnyFormat: true})
	name := b.StreamName(bus.Dead)
	if _, err := b.JetStream().CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{"foo.bar"}, Retention: jetstream.WorkQueuePolicy}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := admin.Provision(t.Context(), b, admin.Everything); err == nil || !strings.Contains(err.Error(), "remove it") {
			t.Errorf("got %v", err)
		}
		if c := config(t, b, name); c.Metadata[jsapi.FormatKey] != "" || !slices.Equal(c.Subjects, []string{"foo.bar"}) {
			t.Errorf("it was changed to %+v", c)
		}
	}
	if err := b.JetStream().DeleteStream(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Provision(t.Context(), b, admin.Everything); err != nil {
		t.Error(err)
	}
}

// A stream that never had a message is not refused for good: an update takes it over.
func TestUnusedStreamIsTakenOver(t *testing.T) {
	b := bustest.Dial(t, bustest.Server(t), bus.Config{})
	name := b.StreamName(bus.Sessions)
	if _, err := b.JetStream().CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{"stevedore.session.*"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Provision(t.Context(), b, admin.Nothing); err == nil || !strings.Contains(err.Error(), "never used") {
		t.Errorf("got %v", err)
	}
	if _, err := admin.Provision(t.Context(), b, admin.Everything); err != nil {
		t.Fatal(err)
	}
	if got, err := admin.Provision(t.Context(), b, admin.Nothing); err != nil || len(got.Differences) != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A step gives a stream the messages per subject of this version, without which a removed job comes back.
func TestStepOfTicks(t *testing.T) {
	b := bustest.New(t)
	name := b.StreamName(bus.Ticks)
	c := config(t, b, name)
	c.MaxMsgsPerSubject = 1
	if _, err := b.JetStream().UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	setFormat(t, b, name, "3")
	moved, err := admin.Move(t.Context(), b, "", func(admin.Step) {})
	if err != nil || len(moved) != 1 || moved[0].Stream != name {
		t.Errorf("moved %v, %v", moved, err)
	}
	if got := config(t, b, name); got.MaxMsgsPerSubject != 2 {
		t.Errorf("it keeps %d messages for each subject", got.MaxMsgsPerSubject)
	}
	if got, err := admin.Provision(t.Context(), b, admin.Nothing); err != nil || len(got.Differences) != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// formerOutbox makes the outbox one of version 3 with a notification.
func formerOutbox(t *testing.T, b *bus.Bus) {
	t.Helper()
	setFormat(t, b, b.StreamName(bus.Outbox), "3", "stevedore.notify.*")
	if _, err := b.JetStream().Publish(t.Context(), b.NotifyAny("chat"), []byte(`{"text":"x"}`)); err != nil {
		t.Fatal(err)
	}
}

// Move copies what it changes, and changes nothing else. A copy that was interrupted is made again;
// a complete one is kept, because the stream may have changed since.
func TestMove(t *testing.T) {
	s := bustest.Server(t)
	b := bustest.Connect(t, s, bus.Config{AnyFormat: true})
	if _, err := admin.Provision(t.Context(), b, admin.Nothing); err != nil {
		t.Fatal(err)
	}
	name := b.StreamName(bus.Outbox)
	calls := config(t, b, b.StreamName(bus.Calls))
	dir := filepath.Join(t.TempDir(), "copies")
	copied := filepath.Join(dir, name+"-3")
	move := func() {
		t.Helper()
		moved, err := admin.Move(t.Context(), b, dir, func(admin.Step) {})
		if err != nil || len(moved) != 1 || moved[0].String() != "STEVEDORE_OUTBOX: version 3 to 3.1 (gives each chat its own subject)" || !moved[0].Beside {
			t.Fatalf("moved %v, %v", moved, err)
		}
	}
	formerOutbox(t, b)
	if _, err := bus.Connect(t.Context(), s.ClientConfig(bus.Config{})); err == nil || !strings.HasSuffix(err.Error(), ": STEVEDORE_OUTBOX: version 3 instead of version 3.1") {
		t.Errorf("got %v", err)
	}
	if err := os.MkdirAll(copied, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(copied, "stream.arc.s2"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	move()
	if got := config(t, b, name); strings.Join(got.Subjects, " ") != "stevedore.notify.* stevedore.notify.*.*" || bustest.Messages(t, b, bus.Outbox) != 1 {
		t.Errorf("the outbox is %+v", got)
	}
	if got := config(t, b, calls.Name); got.Metadata[jsapi.FormatKey] != "3" {
		t.Errorf("the calls are %+v", got)
	}
	first, err := os.ReadFile(filepath.Join(copied, "backup.json"))
	if err != nil || !strings.Contains(string(first), `"messages":1`) {
		t.Fatalf("the copy is %s, %v", first, err)
	}
	formerOutbox(t, b) // as if the version was not stored
	added := config(t, b, name)
	added.Subjects = append(added.Subjects, "mine.>")
	if _, err := b.JetStream().UpdateStream(t.Context(), added); err != nil {
		t.Fatal(err)
	}
	move()
	if got := config(t, b, name); !slices.Contains(got.Subjects, "mine.>") {
		t.Errorf("the subject of an operator is lost: %v", got.Subjects)
	}
	if second, err := os.ReadFile(filepath.Join(copied, "backup.json")); err != nil || string(second) != string(first) {
		t.Errorf("the copy became %s, %v", second, err)
	}
	if moved, err := admin.Move(t.Context(), b, dir, func(admin.Step) { t.Error("moved again") }); len(moved) > 0 || err != nil {
		t.Errorf("moved %v, %v", moved, err)
	}
	bustest.Connect(t, s, bus.Config{})
}

// A copy that cannot be made leaves everything as it was.
func TestMoveWithoutCopy(t *testing.T) {
	b := bustest.New(t)
	formerOutbox(t, b)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Move(t.Context(), b, file, func(admin.Step) {}); err == nil || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("got %v", err)
	}
	if got := config(t, b, b.StreamName(bus.Outbox)); len(got.Subjects) != 1 {
		t.Errorf("got %+v", got)
	}
}

// A backup of an earlier format is one that restore moves.
func TestRestoreMoves(t *testing.T) {
	b := bustest.New(t)
	formerOutbox(t, b)
	dir := filepath.Join(t.TempDir(), "backup")
	if _, err := admin.Backup(t.Context(), b, dir, func(string) {}); err != nil {
		t.Fatal(err)
	}
	s := bustest.Server(t)
	restored := bustest.Dial(t, s, bus.Config{})
	if _, err := admin.Restore(t.Context(), restored, dir, func(string) {}); err != nil {
		t.Fatal(err)
	}
	b = bustest.Connect(t, s, bus.Config{}) // with the check
	if bustest.Messages(t, b, bus.Outbox) != 1 {
		t.Error("the notification is lost")
	}
}

// Each step ends at what the program wants or where another one begins.
func TestStepsReachTheirEnd(t *testing.T) {
	b := bustest.Dial(t, bustest.Server(t), bus.Config{})
	for _, c := range append(b.Streams(bus.Config{}), b.Buckets(bus.Config{})...) {
		steps, ok := admin.Steps(&jsapi.FormatError{Differences: []jsapi.FormatDifference{{Stream: c.Name, Has: jsapi.Base, Wants: b.Wants(c.Name)}}})
		if !ok {
			t.Errorf("no steps lead from version %s of %s to %s", jsapi.Base, c.Name, b.Wants(c.Name))
		}
		for _, s := range steps {
			if s.Does == "" || s.To.Compare(s.From) <= 0 || s.Beside && s.To.Major != s.From.Major {
				t.Errorf("the step %+v", s)
			}
		}
	}
}

// A bus of the unreleased version before is moved, too: the notifier reads reports then.
func TestUnreleasedFormatIsMoved(t *testing.T) {
	b := bustest.New(t)
	for _, c := range append(b.Streams(bus.Config{}), b.Buckets(bus.Config{})...) {
		setFormat(t, b, c.Name, "2")
	}
	setFormat(t, b, b.StreamName(bus.Results), "2", "stevedore.result.*.*", "stevedore.completion.*.*", "stevedore.claim.*.*")
	former := b.NotifierConsumer()
	former.Filter = []string{"stevedore.result.*.*", "stevedore.completion.*.*"}
	if _, err := b.Consumer(t.Context(), former); err != nil {
		t.Fatal(err)
	}
	if _, err := b.JetStream().Publish(t.Context(), b.Result("s", "former"), []byte("{}")); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	moved, err := admin.Move(t.Context(), b, dir, func(admin.Step) {})
	if err != nil || len(moved) != 12 { // ten streams, two of them twice
		t.Fatalf("moved %v, %v", moved, err)
	}
	if _, err := b.Formats(t.Context()); err != nil {
		t.Error(err)
	}
	info, _, err := b.ConsumerInfo(t.Context(), former)
	if err != nil || strings.Join(info.Config.FilterSubjects, " ") != "stevedore.completion.*.* stevedore.report.*.*" {
		t.Errorf("the notifier reads %v, %v", info.Config.FilterSubjects, err)
	}
	copies, err := os.ReadDir(dir)
	if err != nil || len(copies) != 3 || copies[0].Name() != "STEVEDORE_OUTBOX-3" ||
		copies[1].Name() != "STEVEDORE_RESULTS-2" || copies[2].Name() != "STEVEDORE_TICKS-3" {
		t.Errorf("copied %v, %v", copies, err)
	}
	if got := config(t, b, b.StreamName(bus.Results)); len(got.Subjects) != 4 || bustest.Messages(t, b, bus.Results) != 1 {
		t.Errorf("the results are %+v", got)
	}
}
