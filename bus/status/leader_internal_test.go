package status

import "testing"

// One server that leads all streams of a cluster is named; streams without replicas have no choice.
func TestOnlyLeader(t *testing.T) {
	of := func(leaders ...string) *Status {
		s := new(Status)
		for _, leader := range leaders {
			s.Streams = append(s.Streams, Stream{Leader: leader, Replicas: 3})
		}
		return s
	}
	single := of("n1", "n1", "n1")
	for i := range single.Streams {
		single.Streams[i].Replicas = 1
	}
	for want, s := range map[string]*Status{"n1": of("n1", "n1", "n1"), "": of("n1", "n2", "n1")} {
		if got := s.onlyLeader(); got != want {
			t.Errorf("%+v: %q, want %q", s.Streams, got, want)
		}
	}
	if got := single.onlyLeader(); got != "" {
		t.Errorf("without replicas: %q", got)
	}
}
