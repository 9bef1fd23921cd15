package embedded

import "testing"

// A client of a busy machine has more than the 2 s that a server gives by default.
func TestTimeToLogIn(t *testing.T) {
	t.Parallel()
	s, err := Start(Config{Dir: t.TempDir(), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if v, err := s.ns.Varz(nil); err != nil || v.AuthTimeout != 10 {
		t.Errorf("%+v, %v", v, err)
	}
}
