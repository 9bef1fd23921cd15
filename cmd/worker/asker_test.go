package main

import (
	"testing"

	"github.com/stevedore-bus/stevedore/tools"
)

// Who asks an agent reads its reply, also behind what its last tool had for the
// user.
func TestForAsker(t *testing.T) {
	for _, test := range []struct{ llm, user, want string }{
		{"There it is.", "", "There it is."},
		{"There it is.", "There it is.", "There it is."},
		{"There it is.", "There it is.\n\n(cut off)", "There it is.\n\n(cut off)"},
		{"There it is.", "shell-out\n", "shell-out\n\nThere it is."},
	} {
		event := tools.ResultEvent{Result: tools.Result{ForLLM: test.llm, ForUser: test.user}}
		if got := forAsker(event); got != test.want {
			t.Errorf("reply %q, for the user %q: got %q, want %q", test.llm, test.user, got, test.want)
		}
	}
}
