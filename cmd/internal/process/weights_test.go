package process

import (
	"slices"
	"strings"
	"testing"
)

// The first pattern that matches counts; a bad one is named in the error.
func TestWeights(t *testing.T) {
	t.Parallel()
	o := Options{Weights: []string{"vip=4", "batch-*=0.2"}}
	if err := o.setWeights(); err != nil {
		t.Fatal(err)
	}
	for session, want := range map[string]float64{"vip": 4, "batch-7": 0.2, "other": 1} {
		if got := o.Worker.Weight(session); got != want {
			t.Errorf("the weight of %s is %v, want %v", session, got, want)
		}
	}
	for _, bad := range []string{"vip", "=2", "vip=0", "vip=-1", "vip=1000", "vip=NaN", "[=2", "vip=x"} {
		o := Options{Weights: []string{bad}}
		if err := o.setWeights(); err == nil || !strings.Contains(err.Error(), "--session-weight") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// A worker serves the queues of its zones beside its own, and only if it serves the default one.
func TestZoneQueues(t *testing.T) {
	t.Parallel()
	var o Options
	o.Worker.Queues, o.OtherZones = []string{"default", "gpu"}, []string{"west"}
	if err := o.addZones(); err == nil || !strings.Contains(err.Error(), "--zone") {
		t.Errorf("other zones without one: %v", err)
	}
	o.Connection.Zone = "east"
	if err := o.addZones(); err != nil || !slices.Equal(o.Worker.Queues, []string{"default", "gpu", "default--east", "default--west"}) ||
		!slices.Equal(o.Worker.Spare, []string{"default--west"}) {
		t.Errorf("queues %v, spare %v, %v", o.Worker.Queues, o.Worker.Spare, err)
	}
	o.Worker.Queues, o.OtherZones = []string{"default"}, []string{"a b"}
	if err := o.addZones(); err == nil || !strings.Contains(err.Error(), "a b") {
		t.Errorf("a bad zone: %v", err)
	}
	o.Worker.Queues = []string{"gpu"}
	if err := o.addZones(); err != nil || len(o.Worker.Queues) != 1 {
		t.Errorf("queues %v, %v", o.Worker.Queues, err)
	}
}
