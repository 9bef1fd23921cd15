package notify

import (
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// The notifier gets a report of each result that has a text for a user, and of few others.
func TestResultsWithTextAreReported(t *testing.T) {
	texts, none := 0, 0
	for _, forUser := range []string{"", "hello"} {
		for _, isError := range []bool{false, true} {
			for _, silent := range []bool{false, true} {
				for _, action := range []string{"", tools.ActionAgent, bus.Heartbeat, bus.Cron} {
					res := &tools.Result{ForLLM: "for the model", UserContent: tools.UserContent{ForUser: forUser}, IsError: isError, Silent: silent}
					event := tools.NewResultEvent(tools.Call{ID: "1", Session: "s", Tool: "t", Action: action}, res)
					text, reported := userText(channel.KindResult, event), task.HasReport(event)
					if (text != "") != reported {
						t.Errorf("for_user %q, error %v, silent %v, action %q: text %q, reported %v", forUser, isError, silent, action, text, reported)
					}
					if text == "" {
						none++
					} else {
						texts++
					}
				}
			}
		}
	}
	if texts == 0 || none == 0 {
		t.Errorf("%d with a text, %d without", texts, none)
	}
}
