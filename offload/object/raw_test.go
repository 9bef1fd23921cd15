package object

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/storetest"
	"github.com/stevedore-bus/stevedore/tools"
)

func TestRawObject(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	store := openTest(t, js, Config{})
	bucket, err := js.ObjectStore(t.Context(), DefaultBlobBucket)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("a line of text\n", 100_000)
	for name, text := range map[string]string{"my/object one": long, "short": "short text", "bytes": "\x00\xff\xfe"} {
		if _, err := bucket.PutBytes(t.Context(), "s/"+name, []byte(text)); err != nil {
			t.Fatal(err)
		}
		o := offload.NewOffloader(store, offload.Config{Always: []string{"theirs"}}) // an adopted object is not offloaded again
		e := tools.RawEvent{Call: tools.Call{ID: "raw " + name, Session: "s", Tool: "theirs"}, Object: "s/" + name}
		var first *tools.Result
		for range 2 { // the second time is a redelivery
			raw, err := o.Raw(t.Context(), e)
			if err != nil {
				t.Fatal(err)
			}
			light := mustOffload(t, o, e.Call, raw)
			if light.Artifact == nil || storedText(t, store, "s", light.Artifact.ID) != text {
				t.Fatalf("the artifact of %q is %+v", name, light.Artifact)
			}
			if inline := name == "short"; light.Artifact.Inline != inline || inline != (light.ForLLM == text) {
				t.Errorf("the model gets %q", light.ForLLM)
			}
			if first != nil && (light.ForLLM != first.ForLLM || *light.Artifact != *first.Artifact) {
				t.Errorf("a redelivery gives %+v instead of %+v", light, first)
			}
			first = light
		}
		rec, err := store.Get(t.Context(), "s", first.Artifact.ID)
		if err != nil || rec.Metadata["biz_id"] != "raw "+name || rec.Metadata["tool_name"] != "theirs" {
			t.Errorf("the record is %+v, %v", rec, err)
		}
	}
	o := offload.NewOffloader(store, offload.Config{})
	_, err = o.Raw(t.Context(), tools.RawEvent{Call: tools.Call{ID: "1", Session: "s"}, Object: "s/none"})
	if tools.CodeOf(err) != tools.CodeNotFound || !strings.Contains(err.Error(), `no object "s/none"`) {
		t.Errorf("no such object: %v", err)
	}
	for _, name := range []string{"bytes", "t/bytes", "s", "S/bytes", "/s/bytes", "../s/bytes"} { // of another session, or of none
		if _, err := o.Raw(t.Context(), tools.RawEvent{Call: tools.Call{ID: "2", Session: "s"}, Object: name}); tools.CodeOf(err) != tools.CodeInvalidCall || !strings.Contains(err.Error(), `"s/"`) {
			t.Errorf("object %q: %v", name, err)
		}
	}
	// The same id with another object is another artifact.
	raw, err := o.Raw(t.Context(), tools.RawEvent{Call: tools.Call{ID: "raw short", Session: "s"}, Object: "s/bytes"})
	if err != nil || raw.Artifact.ID == tools.Token("raw short") || storedText(t, store, "s", raw.Artifact.ID) != "\x00\xff\xfe" {
		t.Errorf("the id used twice gives %+v, %v", raw, err)
	}
}

func mustOffload(t *testing.T, o *offload.Offloader, call tools.Call, res *tools.Result) *tools.Result {
	t.Helper()
	short, err := o.Result(t.Context(), call, tools.Definition{}, res)
	if err != nil {
		t.Fatal(err)
	}
	return short
}

func storedText(t *testing.T, store offload.Store, session, id string) string {
	t.Helper()
	rec, err := store.Get(t.Context(), session, id)
	if err != nil {
		t.Fatal(err)
	}
	text, err := storetest.ReadAll(t.Context(), store, rec)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
