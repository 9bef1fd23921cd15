package admin_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/bustest"
)

// A backup restored on an empty server has the messages, the state of the consumers and
// the buckets of before. Nothing is restored from a backup that is not complete, nor over
// existing streams.
func TestBackup(t *testing.T) {
	from := bustest.New(t)
	publish := func(subject string, body string) {
		t.Helper()
		if _, err := from.JetStream().PublishAsync(subject, []byte(body), jetstream.WithStallWait(bustest.Timeout)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3000 { // several chunks
		publish(from.Result("s", fmt.Sprint("c", i)), fmt.Sprintf(`{"id":"c%d","session":"s","for_llm":"%x"}`, i, strings.Repeat(fmt.Sprint(i*i), 100)))
	}
	<-from.JetStream().PublishAsyncComplete()
	worker := from.WorkerConsumer("default")
	bustest.Consumers(t, from, worker)
	publish(from.Call("default", "x", "s", "done"), "{}")
	publish(from.Call("default", "x", "s", "waits"), "{}")
	<-from.JetStream().PublishAsyncComplete()
	cons, err := from.JetStream().Consumer(t.Context(), from.StreamName(bus.Calls), worker.Name)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := cons.Next()
	if err != nil {
		t.Fatal(err)
	}
	if err := msg.DoubleAck(t.Context()); err != nil {
		t.Fatal(err)
	}
	tasks, err := from.JetStream().KeyValue(t.Context(), from.BucketName(bus.TasksBucket))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tasks.PutString(t.Context(), "k", "v"); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "backup")
	var shown []string
	saved, err := admin.Backup(t.Context(), from, dir, func(stream string) { shown = append(shown, stream) })
	if err != nil || len(saved) != 10 || len(shown) != 10 {
		t.Fatalf("saved %v, shown %q, %v", saved, shown, err)
	}
	if _, err := admin.Backup(t.Context(), from, dir, func(string) {}); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("a second backup in the directory: %v", err)
	}

	into := bustest.Dial(t, bustest.Server(t), bus.Config{Log: bustest.Log(t)})
	refused := func(what, want string, b *bus.Bus, dir string) {
		t.Helper()
		if got, err := admin.Restore(t.Context(), b, dir, func(string) {}); err == nil || !strings.Contains(err.Error(), want) || len(got) > 0 {
			t.Errorf("%s: restored %v, %v; want the error %q", what, got, err, want)
		}
	}
	refused("over existing streams", "exists", from, dir)
	refused("no backup", "is not a complete backup", into, t.TempDir())
	meta := filepath.Join(dir, "STEVEDORE_DEAD", "backup.json")
	if err := os.Rename(meta, meta+".away"); err != nil {
		t.Fatal(err)
	}
	refused("a copy that did not end", filepath.Join("STEVEDORE_DEAD", "backup.json"), into, dir)
	if err := os.Rename(meta+".away", meta); err != nil {
		t.Fatal(err)
	}

	// The command advises to copy what the streams do not contain, too.
	stray := filepath.Join(dir, "KV_other")
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "state.json"), nil, 0o600), os.MkdirAll(filepath.Join(dir, "artifacts", "s"), 0o700),
		os.CopyFS(stray, os.DirFS(filepath.Dir(meta)))); err != nil {
		t.Fatal(err)
	}
	refused("the copy of another stream", `KV_other" does not belong to the backup`, into, dir)
	if err := os.RemoveAll(stray); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Restore(t.Context(), into, dir, func(string) {}); err != nil {
		t.Fatal(err)
	}
	if n := bustest.Messages(t, into, bus.Results); n != 3000 {
		t.Errorf("%d results", n)
	}
	if done, err := admin.Provision(t.Context(), into, admin.Nothing); err != nil || len(done.Created) > 0 {
		t.Errorf("a worker finds %v, %v", done, err)
	}
	cons, err = into.JetStream().Consumer(t.Context(), into.StreamName(bus.Calls), worker.Name)
	if err != nil {
		t.Fatal(err)
	}
	if msg, err = cons.Next(); err != nil || msg.Subject() != into.Call("default", "x", "s", "waits") {
		t.Errorf("the next call is %v, %v", msg, err)
	}
	tasks, err = into.JetStream().KeyValue(t.Context(), into.BucketName(bus.TasksBucket))
	if err != nil {
		t.Fatal(err)
	}
	if entry, err := tasks.Get(t.Context(), "k"); err != nil || string(entry.Value()) != "v" {
		t.Errorf("the bucket has %v, %v", entry, err)
	}

	// A damaged copy is an error that names its stream, and what to do.
	data := filepath.Join(dir, "STEVEDORE_RESULTS", "stream.arc.s2")
	content, err := os.ReadFile(data)
	if err == nil {
		err = os.WriteFile(data, content[:len(content)/2], 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	other := bustest.Dial(t, bustest.Server(t), bus.Config{Log: bustest.Log(t)})
	_, err = admin.Restore(t.Context(), other, dir, func(string) {})
	if !errors.Is(err, admin.ErrDamaged) || !strings.Contains(err.Error(), "restore stream STEVEDORE_RESULTS") || !strings.Contains(err.Error(), data) {
		t.Errorf("half of a copy: %v", err)
	}
	// What a client wrote meanwhile stays: it has the acknowledgement.
	_, err = admin.Restore(t.Context(), other, dir, func(stream string) {
		if stream == other.StreamName(bus.Results) {
			if _, err := other.JetStream().Publish(t.Context(), other.Session("new"), []byte("{}")); err != nil {
				t.Error(err)
			}
		}
	})
	if err == nil || !strings.Contains(err.Error(), "the restored stream STEVEDORE_SESSIONS stays: clients have written to it") {
		t.Errorf("a restoration beside a client: %v", err)
	}
	var names []string
	for name := range other.JetStream().StreamNames(t.Context()).Name() {
		names = append(names, name)
	}
	written, err := other.Last(t.Context(), bus.Sessions, other.Session("new"))
	if !slices.Equal(names, []string{"STEVEDORE_SESSIONS"}) || err != nil || written.Sequence == 0 {
		t.Errorf("it left %q with %+v, %v", names, written, err)
	}
	if err := other.JetStream().DeleteStream(t.Context(), "STEVEDORE_SESSIONS"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(data, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Restore(t.Context(), other, dir, func(string) {}); err != nil {
		t.Errorf("again, with the whole copy: %v", err)
	}
}

// A stream that was sealed, or from which nobody could remove messages, works again in what is restored from a backup.
func TestSealedStreamIsRestored(t *testing.T) {
	from := bustest.New(t)
	if _, err := from.Publish(t.Context(), bus.Message{Subject: from.Result("s", "c"), Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{from.StreamName(bus.Results), "KV_" + from.BucketName(bus.TasksBucket)} {
		c := config(t, from, name)
		c.Sealed, c.AllowMsgTTL = true, true
		if _, err := from.JetStream().UpdateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	denies := config(t, from, from.StreamName(bus.Calls))
	denies.DenyPurge, denies.DenyDelete = true, true
	if _, err := from.JetStream().UpdateStream(t.Context(), denies); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "backup")
	if _, err := admin.Backup(t.Context(), from, dir, func(string) {}); err != nil {
		t.Fatal(err)
	}
	into := bustest.Dial(t, bustest.Server(t), bus.Config{Log: bustest.Log(t)})
	if _, err := admin.Restore(t.Context(), into, dir, func(string) {}); err != nil {
		t.Fatal(err)
	}
	if _, err := into.Publish(t.Context(), bus.Message{Subject: into.Result("s", "d"), Body: []byte("{}")}); err != nil || bustest.Messages(t, into, bus.Results) != 2 {
		t.Errorf("%d results, %v", bustest.Messages(t, into, bus.Results), err)
	}
	for _, want := range into.All(bus.Config{}) {
		c := config(t, into, want.Name)
		if c.Sealed || c.AllowMsgTTL != want.AllowMsgTTL || c.DenyDelete != want.DenyDelete || c.DenyPurge != want.DenyPurge || want.AllowRollup && !c.AllowRollup || c.MaxAge != want.MaxAge || c.Discard != want.Discard {
			t.Errorf("%s: %+v", want.Name, c)
		}
	}
}
