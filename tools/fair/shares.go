package fair

import (
	"math"
	"sync"
)

// Lane is the messages of a session that have the same priority. They begin in the order of
// the queue.
type Lane struct {
	Session string
	// Cost is what a message adds to the share of the lane: 1, or less if the lane should get
	// more messages than others. So priorities starve nobody: a lane that waits
	// gains on the others, and the largest share never has a turn.
	Cost float64
}

// Shares says which lane of a queue has its turn: the one that got least, if one got much
// more. It knows the messages that wait, and those that this process handles, and may limit
// those that it handles of a session at once. It is safe for concurrent use.
type Shares struct {
	mu       sync.Mutex
	position uint64            // the consumer has delivered the messages up to this sequence
	running  map[Lane]int      // messages that are handled
	leading  bool              // this process gives turns; otherwise these are empty:
	recent   map[Lane]float64  // the cost of those that began, halved by each decay; has all of running
	waiting  map[Lane][]uint64 // the sequences of messages, in order
	total    int               // of these
	urgent   int               // lanes that wait with a cost below 1
	left     map[Lane]uint64   // a message that waits for its place; no later one overtakes it
	limit    float64           // a lane with a smaller share has its turn; 0 if none has
	half     float64           // the same for urgent lanes: half of the largest share

	most     int                        // messages of a session that are handled at once; 0 means no limit
	admitted map[string]int             // these
	held     map[string][]chan struct{} // those that arrived and wait for others of their session, in order
	room     int                        // how many more may be held
	changed  chan struct{}              // has an element if room became larger
}

const (
	// maxWaitingAhead is how many messages Shares remembers, of 8 bytes each.
	maxWaitingAhead = 1 << 20
	// dominant is the part of all shares that one lane has at least, if lanes take turns:
	// an eighth. Otherwise the order of the queue is fair, and turns would only cost time.
	dominant = 8
)

// NewShares returns the shares of a process that does not give turns. It handles at most so
// many messages of a session at once, and holds so many others; 0 means no limit.
func NewShares(most, hold int) *Shares {
	s := &Shares{running: map[Lane]int{}, most: most, admitted: map[string]int{}, held: map[string][]chan struct{}{},
		room: hold, changed: make(chan struct{}, 1)}
	s.Lead(false)
	return s
}

// Lead begins or ends the giving of turns.
func (s *Shares) Lead(leading bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leading, s.total, s.urgent, s.limit = leading, 0, 0, 0
	s.recent, s.waiting, s.left = map[Lane]float64{}, map[Lane][]uint64{}, map[Lane]uint64{}
	if leading {
		for lane := range s.running {
			s.recent[lane] = 0
		}
	}
}

// Begin notes that a message is handled. End follows it.
func (s *Shares) Begin(lane Lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[lane]++
	if s.leading {
		s.recent[lane] += lane.Cost
	}
}

// End notes that the handling of a message has ended.
func (s *Shares) End(lane Lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[lane]--; s.running[lane] == 0 {
		delete(s.running, lane)
	}
}

// Admit admits a message that arrived. If too many of its session are handled, wait is not nil
// and is closed when the message is admitted. Release follows.
func (s *Shares) Admit(session string) (wait <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.most == 0 {
		return nil
	}
	if s.admitted[session] < s.most {
		s.admitted[session]++
		return nil
	}
	admit := make(chan struct{})
	s.held[session] = append(s.held[session], admit)
	s.room--
	return admit
}

// Release ends what Admit or Take began, and admits the next message that is held.
func (s *Shares) Release(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.held[session]
	if len(held) == 0 {
		if s.admitted[session]--; s.admitted[session] <= 0 { // without a limit, nobody counts
			delete(s.admitted, session)
		}
		return
	}
	close(held[0])
	if s.held[session] = held[1:]; len(held) == 1 {
		delete(s.held, session)
	}
	s.room++
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Room returns how many messages may arrive although they may be held. If it is 0, changed gets
// an element when there is room.
func (s *Shares) Room() (n int, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.most == 0 {
		return math.MaxInt, nil
	}
	return s.room, s.changed
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

// Add adds a message that waits, after those of its lane before. It reports whether it is the
// first one.
func (s *Shares) Add(lane Lane, sequence uint64) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[lane] = append(s.waiting[lane], sequence)
	s.total++
	if first = len(s.waiting[lane]) == 1; first && lane.Cost < 1 {
		s.urgent++
	}
	return first
}

// IsFull reports whether no more messages are remembered.
func (s *Shares) IsFull() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total >= maxWaitingAhead
}

// Compare compares the shares of the lanes, and reports whether lanes take turns. If no more
// messages may arrive, because those that did wait for others of their session, all others
// have their turn.
func (s *Shares) Compare() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var largest, sum float64
	for lane := range s.recent {
		largest, sum = max(largest, s.of(lane)), sum+s.of(lane)
	}
	s.half = largest / 2
	switch {
	case s.most > 0 && s.room <= 0:
		s.limit, s.half = math.Inf(1), math.Inf(1)
	case largest*dominant < sum:
		s.limit = 0
	default:
		s.limit = s.half
	}
	return s.limit > 0
}

func (s *Shares) of(lane Lane) float64 {
	return s.recent[lane] + float64(s.running[lane])*lane.Cost
}

// Decay halves what began recently.
func (s *Shares) Decay() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for lane, n := range s.recent {
		if s.recent[lane] = n / 2; n < 0.1*lane.Cost && s.running[lane] == 0 {
			delete(s.recent, lane)
		}
	}
}

// HasTurn reports whether a lane has its turn.
func (s *Shares) HasTurn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.next()
	return ok
}

// Take removes and returns the first message of the lane whose turn it is. The message is
// admitted: Release follows.
func (s *Shares) Take() (lane Lane, sequence uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if lane, ok = s.next(); !ok {
		return lane, 0, false
	}
	sequence = s.waiting[lane][0]
	s.drop(lane, 1)
	if s.most > 0 {
		s.admitted[lane.Session]++
	}
	return lane, sequence, true
}

// Leave notes that a message that was taken waits for its place in the queue.
func (s *Shares) Leave(lane Lane, sequence uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left[lane] = max(s.left[lane], sequence)
}

// next returns the lane with the smallest share of those that wait. The caller holds the lock.
func (s *Shares) next() (chosen Lane, ok bool) {
	if s.limit == 0 && s.urgent == 0 {
		return chosen, false
	}
	smallest := math.Inf(1)
	for lane := range s.waiting {
		limit := s.limit
		if lane.Cost < 1 {
			limit = s.half
		}
		// A lane that got nothing yet does not begin one of its expensive messages for nothing.
		share := s.of(lane) + max(lane.Cost-1, 0)
		if share < limit && share < smallest && (s.most == 0 || s.admitted[lane.Session] < s.most) && s.waits(lane) {
			smallest, chosen, ok = share, lane, true
		}
	}
	return chosen, ok
}

// waits forgets the messages of a lane that the consumer has delivered, and reports whether
// others may have a turn.
func (s *Shares) waits(lane Lane) bool {
	n := 0
	for _, sequence := range s.waiting[lane] {
		if sequence > s.position {
			break
		}
		n++
	}
	s.drop(lane, n)
	if s.left[lane] > s.position {
		return false
	}
	delete(s.left, lane)
	return len(s.waiting[lane]) > 0
}

// drop removes the first n messages of a lane.
func (s *Shares) drop(lane Lane, n int) {
	s.total -= n
	if s.waiting[lane] = s.waiting[lane][n:]; len(s.waiting[lane]) == 0 {
		delete(s.waiting, lane)
		if lane.Cost < 1 {
			s.urgent--
		}
	}
}
