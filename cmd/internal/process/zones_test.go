package process

import (
	"slices"
	"strings"
	"testing"
)

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
