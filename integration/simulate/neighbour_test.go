package simulate

// neighbour is the prefix of the other tenant.
const neighbour = "blue"

// newNeighbour returns another tenant on the server of s, with a prefix of its own. Its sessions, calls, chats and
// schedules have the names of those of s, and what they say differs: nothing of one may come to the other.
func newNeighbour(s *simulation) *simulation {
	n := newSimulation(s.seed, 2)
	n.t, n.began, n.host, n.tenant, n.ledger.tenant, n.server = s.t, s.began, s, neighbour, neighbour, s.server
	if s.artifacts != "" {
		n.artifacts = s.t.TempDir()
	}
	return n
}
