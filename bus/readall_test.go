package bus_test

import (
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
)

func TestFilterOfAllMessages(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		filter   string
		subjects []string
		want     bool
	}{
		{"s.*.*.*", []string{"s.result.*.*", "s.claim.*.*"}, true},
		{"s.session.*", []string{"s.session.*"}, true},
		{"s.call.*.*", []string{"s.call.*.*", "s.raw.*.*"}, false},
		{"s.session.a", []string{"s.session.*"}, false},
		{"s.*.*", []string{"s.result.*.*"}, false},
		{"s.*", []string{"s.>"}, false},
		{"s.>", []string{"s.a", "s.b.*"}, true},
		{"s.>", []string{"s.a", "t.a"}, false},
		{">", nil, false},
	} {
		if got := bus.CoversAll(tt.filter, tt.subjects); got != tt.want {
			t.Errorf("%s of %v: %t", tt.filter, tt.subjects, got)
		}
	}
}
