package main

import (
	"testing"

	"github.com/stevedore-bus/stevedore/tools"
)

// Who asks an agent reads its reply, and aside from it what its last tool had for
// the user, though that may begin as the reply does.
func TestForAsker(t *testing.T) {
	for _, test := range []struct {
		llm, user     string
		isError       bool
		answer, aside string
	}{
		{"There it is.", "", false, "There it is.", ""},
		{"There it is.", "There it is.", false, "There it is.", ""},
		{"cut off\nIts last words: There", "There\n\n(cut off)", true, "There\n\n(cut off)", ""},
		{"There it is.", "shell-out\n", false, "There it is.", "shell-out\n\n"},
		{"5", "50 files", false, "5", "50 files\n\n"},
	} {
		event := tools.ResultEvent{Result: tools.Result{ForLLM: test.llm, ForUser: test.user, IsError: test.isError}}
		if answer, aside := forAsker(event); answer != test.answer || aside != test.aside {
			t.Errorf("reply %q, for the user %q: got %q and %q, want %q and %q", test.llm, test.user, answer, aside, test.answer, test.aside)
		}
	}
}
