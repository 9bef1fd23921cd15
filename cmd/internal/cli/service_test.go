package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/state/durable"
)

// Commands of root use the server of the service if the default directory has none; other users and other
// directories do not.
func TestServiceIsFound(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	own, service := DefaultDataDir(), t.TempDir()
	lock, err := durable.LockDir(service)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		dir  string
		root bool
		want string
	}{{own, true, service}, {own, false, own}, {t.TempDir(), true, ""}} {
		want := test.want
		if want == "" {
			want = test.dir
		}
		if got := hadServer(test.dir, service, test.root); got != (want == service) {
			t.Errorf("%+v: a server has run: %v", test, got)
		}
		if got, running, err := runningDir(test.dir, service, test.root); got != want || running != (want == service) || err != nil {
			t.Errorf("%+v: %q, %v, %v", test, got, running, err)
		}
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	if got, _, err := runningDir(own, service, true); got != own || err != nil {
		t.Errorf("while the service is stopped: %q, %v", got, err)
	}
	if got := serviceHint(service, false); !strings.Contains(got, "use sudo") {
		t.Errorf("with a service: %q", got)
	}
	if got := serviceHint(filepath.Join(own, "none", "bus"), false) + serviceHint(service, true); got != "" {
		t.Errorf("without a service, or for root: %q", got)
	}
}
