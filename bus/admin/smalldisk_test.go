package admin_test

import (
	"errors"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/embedded"
)

func isSpace(err error) bool {
	_, ok := errors.AsType[*admin.SpaceError](err)
	return ok
}

// On a small disk, the streams get the available space. A configured size that is not
// available is an error with a hint.
func TestProvisionOnASmallDisk(t *testing.T) {
	dir := t.TempDir()
	s := bustest.Start(t, embedded.Config{Dir: dir, NoSync: true, MaxStore: 1 << 30})
	greedy, err := bus.Connect(t.Context(), s.ClientConfig(bus.Config{MaxBytes: 2 << 30}))
	if err != nil {
		t.Fatal(err)
	}
	defer greedy.Close()
	if _, err := admin.Provision(t.Context(), greedy, admin.Nothing); !isSpace(err) {
		t.Errorf("2 GiB of 1: %v", err)
	}
	modest, err := bus.Connect(t.Context(), s.ClientConfig(bus.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	defer modest.Close()
	for range 2 { // the second time nothing differs
		if got, err := admin.Provision(t.Context(), modest, admin.Nothing); err != nil || len(got.Differences) > 0 {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	if _, err := modest.Publish(t.Context(), bus.Message{Subject: "stevedore.call.default.x.s.c", Body: []byte("{}"), Key: "k"}); err != nil {
		t.Error(err)
	}

	// The blobs leave room for the streams that are small already.
	tiny := bustest.Start(t, embedded.Config{Dir: t.TempDir(), NoSync: true, MaxStore: 160 << 20})
	if _, err := admin.Provision(t.Context(), bustest.Dial(t, tiny, bus.Config{}), admin.Nothing); err != nil {
		t.Error(err)
	}

	// Others fill a half of the disk, which has less space then than the streams reserve. Their sizes can be changed all the same.
	modest.Close()
	s.Close()
	s = bustest.Start(t, embedded.Config{Dir: dir, NoSync: true, MaxStore: 1 << 29})
	later := bustest.Dial(t, s, bus.Config{StreamBytes: map[string]int64{"calls": 32 << 20}})
	for _, change := range []admin.Change{admin.Limits, admin.Everything} {
		if _, err := admin.Provision(t.Context(), later, change); err != nil {
			t.Error(err)
		}
	}
}
