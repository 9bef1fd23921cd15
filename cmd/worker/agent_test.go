package main

import (
	"testing"

	"github.com/stevedore-bus/stevedore/tools"
)

// The answer and the text for the user are separate, also if one starts with the other.
func TestSplitAnswer(t *testing.T) {
	for _, test := range []struct {
		llm, user        string
		isError          bool
		answer, userText string
	}{
		{"There it is.", "", false, "There it is.", ""},
		{"There it is.", "There it is.", false, "There it is.", ""},
		{"cut off\nIts last words: There", "There\n\n(cut off)", true, "There\n\n(cut off)", ""},
		{"There it is.", "shell-out\n", false, "There it is.", "shell-out\n\n"},
		{"5", "50 files", false, "5", "50 files\n\n"},
	} {
		event := tools.ResultEvent{Result: tools.Result{ForLLM: test.llm, ForUser: test.user, IsError: test.isError}}
		if answer, userText := splitAnswer(event); answer != test.answer || userText != test.userText {
			t.Errorf("reply %q, for the user %q: got %q and %q, want %q and %q", test.llm, test.user, answer, userText, test.answer, test.userText)
		}
	}
}
