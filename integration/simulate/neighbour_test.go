package simulate

// neighbour is the prefix of the other tenant.
const neighbour = "blue"

// newNeighbour returns another tenant on the server of s, with a prefix of its own. Its sessions, calls, chats and
// schedules have the names of those of s, and what they say differs: nothing of one may come to the other.
func newNeighbour(s *simulation) *simulation {
	n := newSimulation(s.rnd.Uint64(), 0)
	n.t, n.began, n.host, n.server, n.ledger.tenant = s.t, s.began, s, s.server, neighbour
	if s.artifacts != "" {
		n.artifacts = s.t.TempDir()
	}
	return n
}
