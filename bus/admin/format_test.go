package admin_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// Provision and readers refuse a stream of another format, name both versions, and change
// nothing.
func TestUnknownFormatIsRefused(t *testing.T) {
	for version, want := range map[string][]string{
		"":    {"has no format version", "this program reads version 3", "nats stream rm STEVEDORE_RESULTS"},
		"1":   {"has version 1", "this program reads version 3", "finish its work", "nats stream rm STEVEDORE_RESULTS"},
		"4":   {"has version 4", "this program reads version 3", "the version of Stevedore that provisioned it"},
		"one": {"damaged", `"one"`, "this program reads version 3"},
		"-1":  {"damaged", "this program reads version 3"},
	} {
		b := bustest.Dial(t, bustest.Server(t), bus.Config{})
		config := jetstream.StreamConfig{Name: b.StreamName(bus.Results), Subjects: []string{"stevedore.result.*.*"}}
		if version != "" {
			config.Metadata = map[string]string{"stevedore.format": version}
		}
		if _, err := b.JetStream().CreateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		if _, err := b.JetStream().Publish(t.Context(), b.Result("s", "former"), []byte("{}")); err != nil {
			t.Fatal(err)
		}
		_, read := b.Stream(t.Context(), bus.Results)
		done, check := admin.Provision(t.Context(), b, admin.Nothing)
		_, update := admin.Provision(t.Context(), b, admin.Everything)
		for name, err := range map[string]error{"read": read, "provision": check, "update": update} {
			if _, ok := errors.AsType[*jsapi.FormatError](err); !ok {
				t.Errorf("%s of version %q: %v", name, version, err)
				continue
			}
			for _, part := range want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%s of version %q: %v lacks %q", name, version, err, part)
				}
			}
		}
		if len(done.Created) != 0 {
			t.Errorf("version %q: created %v", version, done.Created)
		}
		s, err := b.JetStream().Stream(t.Context(), config.Name)
		if err != nil || s.CachedInfo().State.Msgs != 1 || s.CachedInfo().Config.Metadata["stevedore.format"] != version {
			t.Errorf("version %q: the stream was changed: %+v, %v", version, s.CachedInfo(), err)
		}
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
