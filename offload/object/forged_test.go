package object

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/storetest"
	"github.com/stevedore-bus/stevedore/tools"
)

// Another client describes other bytes under the name of a blob, as a client that may
// upload objects can. A new process must not serve them, and the next Put repairs the
// blob.
func TestForgedBlob(t *testing.T) {
	t.Parallel()
	js := connect(t, startServer(t, server.Options{}))
	s := openTest(t, js, Config{})
	for i, size := range []int{100, 300_000, 3_000_000} {
		data, forged := storetest.Text(size, uint64(i)), bytes.Repeat([]byte{'F'}, size)
		victim := storetest.Put(t, s, storetest.NewRecord("s1", "victim"+string(rune('0'+i))), data)
		evil := storetest.Put(t, s, storetest.NewRecord("s2", "evil"+string(rune('0'+i))), forged)
		b, err := s.blob(t.Context(), strings.TrimPrefix(evil.Digest, offload.DigestPrefix))
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(victim.Digest, offload.DigestPrefix)
		b.Name = name
		meta, err := json.Marshal(b.ObjectInfo)
		if err != nil {
			t.Fatal(err)
		}
		header := map[string][]string{"Nats-Rollup": {"sub"}}
		if _, err := js.PublishMsg(t.Context(), natsMessage(s.metaSubject(name), meta, header)); err != nil {
			t.Fatal(err)
		}
		again := openTest(t, js, Config{}) // has nothing in its cache
		if got, err := storetest.ReadAll(t.Context(), again, victim); err == nil || !errors.Is(err, offload.ErrCorrupt) {
			t.Errorf("%d bytes: read %.20q, %v; want ErrCorrupt", size, got, err)
		}
		storetest.CheckContent(t, again, storetest.Put(t, again, storetest.NewRecord("s1", victim.ID), data), data)
	}
}

// A description that no client writes hides no content for good, does not end a sweep, and does not
// name the chunks of others.
func TestGarbageAsDescription(t *testing.T) {
	t.Parallel()
	js := connect(t, startServer(t, server.Options{}))
	var c storetest.Clock
	s := openTest(t, js, Config{StoreConfig: offload.StoreConfig{Now: c.Now}})
	data := storetest.Text(300_000, 1)
	victim := storetest.Put(t, s, storetest.NewRecord("s", "victim"), data)
	name := strings.TrimPrefix(victim.Digest, offload.DigestPrefix)
	publish := func(name, meta string) {
		t.Helper()
		if _, err := js.PublishMsg(t.Context(), natsMessage(s.metaSubject(name), []byte(meta), nats.Header{"Nats-Rollup": {"sub"}})); err != nil {
			t.Fatal(err)
		}
	}
	publish(name, "{")
	if _, err := storetest.ReadAll(t.Context(), openTest(t, js, Config{}), victim); !errors.Is(err, offload.ErrCorrupt) {
		t.Errorf("read %v, want ErrCorrupt", err)
	}
	storetest.CheckContent(t, s, storetest.Put(t, s, victim, data), data)
	for name, meta := range map[string]string{"a": "{", "b": "", "c": `{"size":-1,"nuid":5}`, "d": `{"deleted":true,"nuid":">"}`, "e": `{"nuid":"*"}`} {
		publish(name, meta)
	}
	c.Advance(6 * 24 * time.Hour)
	if rec, err := s.Get(t.Context(), "s", "victim"); err != nil || rec.ExpiresAt.Before(c.Now().Add(24*time.Hour)) {
		t.Fatalf("%+v, %v", rec, err)
	}
	c.Advance(2 * 24 * time.Hour)
	if _, err := s.Sweep(t.Context(), time.Hour); err != nil {
		t.Error(err)
	}
	storetest.CheckContent(t, s, victim, data)
	if left, err := s.objects(t.Context()); err != nil || len(left) != 1 {
		t.Errorf("left are %+v, %v; want the victim", left, err)
	}
}

// A record that is not JSON, or that belongs to another session, is not served. It does
// not hide the others, and it can be removed.
func TestCorruptRecords(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	s := openTest(t, js, Config{})
	reader := offload.NewReader(s, offload.ReaderConfig{})
	secret := storetest.Put(t, s, storetest.NewRecord("s2", "secret"), []byte("the secret of s2"))
	storetest.Put(t, s, storetest.NewRecord("s1", "good"), []byte("fine"))
	alias, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	for id, data := range map[string]string{"alias": string(alias), "broken": "{", "empty": "", "number": "5"} {
		if _, err := js.Publish(t.Context(), "$KV."+defaultRecordBucket+".s1."+id, []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"alias", "broken", "empty", "number"} {
		if rec, err := s.Get(t.Context(), "s1", id); err == nil {
			t.Errorf("%s: %+v", id, rec)
		}
		if page, err := reader.GetByID(t.Context(), "s1", id, 0, 0); err == nil {
			t.Errorf("%s: %+v", id, page)
		}
	}
	list, err := reader.Query(t.Context(), "s1", nil, 0, 0)
	if err != nil || list.Count != 1 || list.Artifacts[0].ID != "good" || list.Damaged != 4 || !strings.HasSuffix(list.Text(), "not in this list: 4]") {
		t.Errorf("list %+v, %v", list, err)
	}
	for _, id := range []string{"alias", "broken", "empty", "number"} {
		if _, err := reader.Delete(t.Context(), "s1", id); err != nil {
			t.Errorf("delete %s: %v", id, err)
		}
		if _, err := reader.Record(t.Context(), "s1", id); tools.CodeOf(err) != tools.CodeNotFound {
			t.Errorf("after its removal, %s: %v", id, err)
		}
	}
	for _, key := range []string{"x", "a.b.c"} { // no artifact has it, so nobody could remove it
		if _, err := js.Publish(t.Context(), "$KV."+defaultRecordBucket+"."+key, []byte("{")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Sweep(t.Context(), 0); err != nil {
		t.Error(err)
	}
	for _, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Error(err)
		}
	}
	storetest.CheckContent(t, s, secret, []byte("the secret of s2"))
}

func natsMessage(subject string, data []byte, header nats.Header) *nats.Msg {
	return &nats.Msg{Subject: subject, Data: data, Header: header}
}
