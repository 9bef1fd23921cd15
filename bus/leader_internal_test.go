package bus

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func TestHasLostQuorum(t *testing.T) {
	alive, silent, offline := &jetstream.PeerInfo{Active: time.Second}, &jetstream.PeerInfo{Active: 3 * time.Second}, &jetstream.PeerInfo{Offline: true}
	for _, test := range []struct {
		peers []*jetstream.PeerInfo
		lost  bool
	}{
		{nil, false},
		{[]*jetstream.PeerInfo{alive, silent}, false},
		{[]*jetstream.PeerInfo{offline, silent}, true},
		{[]*jetstream.PeerInfo{alive, alive, silent, offline}, false},
		{[]*jetstream.PeerInfo{alive, silent, silent, offline}, true},
	} {
		if lost := HasLostQuorum(&jetstream.ClusterInfo{Leader: "n", Replicas: test.peers}); lost != test.lost {
			t.Errorf("%d peers: %v, want %v", len(test.peers), lost, test.lost)
		}
	}
}
