package status

import (
	"testing"

	"github.com/stevedore-bus/stevedore/tools/trouble"
)

// What fails because the streams of the bus fail is not shown beside the streams that are named.
func TestWhatFollowsFromStreamsIsHidden(t *testing.T) {
	follow := []trouble.Kind{trouble.Streams, trouble.Consumer, trouble.Schedules, trouble.Heartbeat, trouble.Store}
	stay := []trouble.Kind{trouble.Model, trouble.Disk, trouble.MCPServer, trouble.Permission}
	var s Status
	for store, kinds := range map[string][]trouble.Kind{"object:artifacts": follow, "disk:/data": stay} {
		w := Worker{store: store}
		for _, kind := range kinds {
			w.failures = append(w.failures, trouble.Failure{Kind: kind, Name: store, Error: "it fails"})
		}
		s.Workers = append(s.Workers, w)
	}
	if got := s.failures(false); len(got) != len(follow)+len(stay) {
		t.Errorf("%d problems while no stream is named, want %d: %+v", len(got), len(follow)+len(stay), got)
	}
	got := s.failures(true)
	for _, p := range got {
		for _, kind := range follow {
			if p.Code == string(kind) {
				t.Errorf("%s is shown beside the streams", kind)
			}
		}
	}
	if len(got) != len(stay) {
		t.Errorf("%d problems beside the streams, want %d: %+v", len(got), len(stay), got)
	}
}
