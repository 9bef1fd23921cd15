package tools_test

import (
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/tools"
)

func TestNearest(t *testing.T) {
	known := []string{"read_file", "write_file", "ls", "rm", "get", "artifacts", "Total Profit", "Größe"}
	for name, want := range map[string]string{
		"read_fil": "read_file", "raed_file": "read_file", "READ_FILE": "read_file", "art": "artifacts", "gte": "get",
		"Totl Prfit": "Total Profit", "Grösse": "Größe", "sl": "ls",
		"": "", "l": "", "cp": "", "delete": "", "wait": "", strings.Repeat("read_file", 1000): "",
	} {
		if got := tools.Nearest(name, known); got != want {
			t.Errorf("%.20q: %q, want %q", name, got, want)
		}
	}
	if got := tools.DidYouMean("read_file", known); got != "" {
		t.Error(got)
	}
	if got := tools.DidYouMean("read_fil", known); got != ` (did you mean "read_file"?)` {
		t.Error(got)
	}
	if got := tools.DidYouMean("other", nil); got != "" {
		t.Error(got)
	}
}
