// Package fair shares the slots of a consumer among those who wait: Shares says whose turn it
// is, Slots counts what is free.
package fair

import "sync"

// Shares says which session of a queue has its turn: the one that got least, if one got much
// more. It knows the messages that wait, and those that this process handles. It is safe for
// concurrent use.
type Shares struct {
	mu       sync.Mutex
	position uint64              // the consumer has delivered the messages up to this sequence
	running  map[string]int      // messages that are handled, by session
	leading  bool                // this process gives turns; otherwise all but running is empty
	recent   map[string]float64  // messages that began, halved by each decay; has all of running
	waiting  map[string][]uint64 // the sequences of messages by session, in order
	total    int                 // of these
	left     map[string]uint64   // a message that waits for its place; no later one overtakes it
	limit    float64             // a session with a smaller share has its turn; 0 if none has
}

const (
	// maxWaitingAhead is how many messages Shares remembers, of 8 bytes each.
	maxWaitingAhead = 1 << 20
	// dominant is the part of all shares that one session has at least, if sessions take turns:
	// an eighth. Otherwise the order of the queue is fair, and turns would only cost time.
	dominant = 8
)

// NewShares returns the shares of a process that does not give turns.
func NewShares() *Shares {
	s := &Shares{running: map[string]int{}}
	s.Lead(false)
	return s
}

// Lead begins or ends the giving of turns.
func (s *Shares) Lead(leading bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leading, s.total, s.limit = leading, 0, 0
	s.recent, s.waiting, s.left = map[string]float64{}, map[string][]uint64{}, map[string]uint64{}
	if leading {
		for session := range s.running {
			s.recent[session] = 0
		}
	}
}

// Begin notes that a message of a session is handled. End follows it.
func (s *Shares) Begin(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[session]++
	if s.leading {
		s.recent[session]++
	}
}

// End notes that the handling of a message has ended.
func (s *Shares) End(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[session]--; s.running[session] == 0 {
		delete(s.running, session)
	}
}

// Advance notes that the consumer has delivered the messages up to a sequence.
func (s *Shares) Advance(sequence uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.position = max(s.position, sequence)
}

// Delivered returns the sequence up to which the consumer has delivered the messages.
func (s *Shares) Delivered() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.position
}

// Add adds a message that waits, after those of its session before. It reports whether it is
// the first one.
func (s *Shares) Add(session string, sequence uint64) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[session] = append(s.waiting[session], sequence)
	s.total++
	return len(s.waiting[session]) == 1
}

// IsFull reports whether no more messages are remembered.
func (s *Shares) IsFull() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total >= maxWaitingAhead
}

// Compare compares the shares of the sessions, and reports whether sessions take turns.
func (s *Shares) Compare() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var largest, sum float64
	for session := range s.recent {
		largest, sum = max(largest, s.of(session)), sum+s.of(session)
	}
	if s.limit = largest / 2; largest*dominant < sum {
		s.limit = 0
	}
	return s.limit > 0
}

func (s *Shares) of(session string) float64 { return s.recent[session] + float64(s.running[session]) }

// Decay halves what began recently.
func (s *Shares) Decay() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for session, n := range s.recent {
		if s.recent[session] = n / 2; n < 0.1 && s.running[session] == 0 {
			delete(s.recent, session)
		}
	}
}

// HasTurn reports whether a session has its turn.
func (s *Shares) HasTurn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.next()
	return ok
}

// Take removes and returns the first message of the session whose turn it is.
func (s *Shares) Take() (session string, sequence uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session, ok = s.next(); !ok {
		return "", 0, false
	}
	sequence = s.waiting[session][0]
	s.drop(session, 1)
	return session, sequence, true
}

// Leave notes that a message that was taken waits for its place in the queue.
func (s *Shares) Leave(session string, sequence uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left[session] = max(s.left[session], sequence)
}

// next returns the session with the smallest share of those that wait. The caller holds the lock.
func (s *Shares) next() (chosen string, ok bool) {
	if s.limit == 0 {
		return "", false
	}
	smallest := s.limit
	for session := range s.waiting {
		if s.of(session) < smallest && s.waits(session) {
			smallest, chosen, ok = s.of(session), session, true
		}
	}
	return chosen, ok
}

// waits forgets the messages of a session that the consumer has delivered, and reports whether
// others may have a turn.
func (s *Shares) waits(session string) bool {
	n := 0
	for _, sequence := range s.waiting[session] {
		if sequence > s.position {
			break
		}
		n++
	}
	s.drop(session, n)
	if s.left[session] > s.position {
		return false
	}
	delete(s.left, session)
	return len(s.waiting[session]) > 0
}

// drop removes the first n messages of a session.
func (s *Shares) drop(session string, n int) {
	s.total -= n
	if s.waiting[session] = s.waiting[session][n:]; len(s.waiting[session]) == 0 {
		delete(s.waiting, session)
	}
}
