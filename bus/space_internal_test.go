package bus

import "testing"

// A publish succeeds that has read the last refusal before the first one came, while another publish
// notes that this one is over.
func TestFirstRefusalBesideOtherPublishes(t *testing.T) {
	s := newSpace(&Bus{})
	s.mended.Store(&Refusal{Subject: "a"})
	s.Note("a", nil)
	if r, ok := s.LastRefusal(); ok {
		t.Errorf("refused: %v", r)
	}
}
