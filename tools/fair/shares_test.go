package fair

import "testing"

// wantTake takes a message of a session; "" means that no session has its turn.
func wantTake(t *testing.T, s *Shares, session string, sequence uint64) {
	t.Helper()
	s.Compare()
	if got, n, ok := s.Take(); got.Session != session || n != sequence || ok != (session != "") {
		t.Fatalf("took message %d of %v, %t, want %d of %q", n, got, ok, sequence, session)
	}
}

// normal is the lane of a session without priority.
func normal(session string) Lane { return Lane{session, 1} }

// handled notes n messages of a session that were handled.
func handled(s *Shares, session string, n int) {
	for range n {
		s.Begin(normal(session))
		s.End(normal(session))
	}
}

// floodAndCalm returns shares of a flood that got much, and of a calm session that waits.
func floodAndCalm() *Shares {
	s := NewShares(0, 0)
	s.Lead(true)
	handled(s, "flood", 100)
	for _, sequence := range []uint64{5, 7, 9} {
		s.Add(normal("calm"), sequence)
	}
	return s
}

// The session that got least has its turn, with its messages in order, until it got half of
// what the largest got.
func TestSharesTakeTheSmallest(t *testing.T) {
	t.Parallel()
	s := NewShares(0, 0)
	s.Begin(normal("flood")) // before this process leads
	s.Lead(true)
	handled(s, "flood", 9)
	handled(s, "some", 1)
	for i := range uint64(20) {
		s.Add(normal("flood"), 100+i)
	}
	for i := range uint64(9) {
		if first := s.Add(normal("some"), 200+i); first != (i == 0) {
			t.Errorf("message %d is the first one: %t", i, first)
		}
	}
	s.Add(normal("none"), 300)
	wantTake(t, s, "none", 300)
	for i := range uint64(4) { // 1 + 4 is half of 9 + 1
		wantTake(t, s, "some", 200+i)
		s.Begin(normal("some"))
		s.End(normal("some"))
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
	s.Leave(normal("calm"), 5)
	wantTake(t, s, "", 0)
	s.Advance(5)
	wantTake(t, s, "calm", 7)
}

// If no session stands out, the order of the queue is fair.
func TestSharesOfManyEqualSessions(t *testing.T) {
	t.Parallel()
	s := NewShares(0, 0)
	s.Lead(true)
	sessions := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"}
	for _, session := range sessions {
		handled(s, session, 10)
	}
	s.Add(normal("new"), 1)
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

// rates simulates a process with some slots and calls of 100 ms for a minute, in which every
// lane always has calls that wait. It returns how many of each began.
func rates(lanes []Lane) (began map[Lane]int) {
	const slots, perSecond = 16, 10
	s, began := NewShares(0, 0), map[Lane]int{}
	s.Lead(true)
	queue := 0 // the consumer delivers the lanes in turn
	sequence := uint64(0)
	for tick := range 60 * perSecond {
		running := []Lane{}
		for range slots {
			for _, lane := range lanes {
				if len(s.waiting[lane]) == 0 {
					sequence++
					s.Add(lane, sequence)
				}
			}
			s.Compare()
			lane, _, ok := s.Take()
			if !ok {
				lane = lanes[queue%len(lanes)]
				queue++
			}
			s.Begin(lane)
			running = append(running, lane)
			began[lane]++
		}
		for _, lane := range running {
			s.End(lane)
		}
		if tick%perSecond == 0 {
			s.Decay()
		}
	}
	return began
}

// A priority gets several times as much as the one below, and that one still gets its part:
// nobody starves. The same holds for weights.
func TestSharesOfPriorities(t *testing.T) {
	t.Parallel()
	high, middle, low := Lane{"a", 1. / 8}, Lane{"a", 1}, Lane{"b", 8}
	got := rates([]Lane{high, middle, low})
	if got[high] < 3*got[middle] || got[middle] < 2*got[low] || got[low] < 60 {
		t.Errorf("of 9600 messages began %v", got)
	}
	many := []Lane{low}
	for i := range 20 {
		many = append(many, Lane{string(rune('A' + i)), 1})
	}
	if got := rates(many); got[low] < 60 || got[low] > 9600/20 {
		t.Errorf("beside 20 others, %d messages of a low priority began", got[low])
	}
}

// An urgent message goes ahead of its own session, and also if no lane stands out.
func TestSharesOfAnUrgentMessage(t *testing.T) {
	t.Parallel()
	s := NewShares(0, 0)
	s.Lead(true)
	for _, session := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"} {
		handled(s, session, 10)
		s.Add(normal(session), 1)
	}
	s.Add(Lane{"a", 1. / 8}, 2)
	wantTake(t, s, "a", 2)
	wantTake(t, s, "", 0)
}

// A session has its limit of messages. Those that arrive beyond are admitted in order; if no
// more may arrive, other sessions have their turn.
func TestSharesLimitASession(t *testing.T) {
	t.Parallel()
	s := NewShares(1, 2)
	s.Lead(true)
	if s.Admit("flood") != nil || s.Admit("calm") != nil {
		t.Fatal("the first messages were not admitted")
	}
	s.Release("calm")
	s.Begin(normal("flood"))
	first, second := s.Admit("flood"), s.Admit("flood")
	if n, _ := s.Room(); first == nil || second == nil || n != 0 {
		t.Fatalf("room for %d more", n)
	}
	s.Add(normal("flood"), 4)
	for i, session := range []string{"a", "b", "c"} {
		s.Add(normal(session), uint64(5+i))
		handled(s, session, 1) // no share stands out
	}
	s.Compare()
	for range 3 {
		if lane, _, ok := s.Take(); !ok || lane.Session == "flood" {
			t.Fatalf("took %v, %t", lane, ok)
		}
	}
	wantTake(t, s, "", 0)
	s.Release("flood")
	select {
	case <-second:
		t.Error("the second message was admitted before the first one")
	case <-first:
	}
	n, changed := s.Room()
	<-changed
	if n != 1 {
		t.Errorf("room for %d more", n)
	}
	s.Release("flood")
	<-second
	s.Release("flood")
	wantTake(t, s, "", 0)
	s.Release("a")
	if len(s.held) != 0 || len(s.admitted) != 2 {
		t.Errorf("held %v, admitted %v", s.held, s.admitted)
	}
}
