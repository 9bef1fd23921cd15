package fair

import "testing"

// wantTake takes a message of a session; "" means that no session has its turn.
func wantTake(t *testing.T, s *Shares, session string, sequence uint64) {
	t.Helper()
	s.Compare()
	if got, n, ok := s.Take(); got != session || n != sequence || ok != (session != "") {
		t.Fatalf("took message %d of %q, %t, want %d of %q", n, got, ok, sequence, session)
	}
}

// handled notes n messages of a session that were handled.
func handled(s *Shares, session string, n int) {
	for range n {
		s.Begin(session)
		s.End(session)
	}
}

// floodAndCalm returns shares of a flood that got much, and of a calm session that waits.
func floodAndCalm() *Shares {
	s := NewShares()
	s.Lead(true)
	handled(s, "flood", 100)
	for _, sequence := range []uint64{5, 7, 9} {
		s.Add("calm", sequence)
	}
	return s
}

// The session that got least has its turn, with its messages in order, until it got half of
// what the largest got.
func TestSharesTakeTheSmallest(t *testing.T) {
	t.Parallel()
	s := NewShares()
	s.Begin("flood") // before this process leads
	s.Lead(true)
	handled(s, "flood", 9)
	handled(s, "some", 1)
	for i := range uint64(20) {
		s.Add("flood", 100+i)
	}
	for i := range uint64(9) {
		if first := s.Add("some", 200+i); first != (i == 0) {
			t.Errorf("message %d is the first one: %t", i, first)
		}
	}
	s.Add("none", 300)
	wantTake(t, s, "none", 300)
	for i := range uint64(4) { // 1 + 4 is half of 9 + 1
		wantTake(t, s, "some", 200+i)
		s.Begin("some")
		s.End("some")
	}
	wantTake(t, s, "", 0)
	handled(s, "flood", 2)
	wantTake(t, s, "some", 204)
	s.Lead(false)
	wantTake(t, s, "", 0)
}

// The consumer delivers messages, too: those are forgotten.
func TestSharesForgetWhatWasDelivered(t *testing.T) {
	t.Parallel()
	s := floodAndCalm()
	s.Advance(7)
	s.Advance(3) // a late report
	wantTake(t, s, "calm", 9)
	wantTake(t, s, "", 0)
	if s.total != 0 || len(s.waiting) != 0 {
		t.Errorf("%d messages wait, of %v", s.total, s.waiting)
	}
}

// If a message must wait for its place, no later one of its session overtakes it.
func TestSharesKeepTheOrder(t *testing.T) {
	t.Parallel()
	s := floodAndCalm()
	wantTake(t, s, "calm", 5)
	s.Leave("calm", 5)
	wantTake(t, s, "", 0)
	s.Advance(5)
	wantTake(t, s, "calm", 7)
}

// If no session stands out, the order of the queue is fair.
func TestSharesOfManyEqualSessions(t *testing.T) {
	t.Parallel()
	s := NewShares()
	s.Lead(true)
	sessions := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"}
	for _, session := range sessions {
		handled(s, session, 10)
	}
	s.Add("new", 1)
	wantTake(t, s, "", 0)
	handled(s, "a", 10)
	wantTake(t, s, "new", 1)
	for range 20 {
		s.Decay()
	}
	if len(s.recent) != 0 {
		t.Errorf("sessions that ended long ago are remembered: %v", s.recent)
	}
}
