package notify

import (
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/tools"
)

// The notifier reads each result that may have a text for a user, whatever else it has, and
// what no worker has written.
func TestHasNoText(t *testing.T) {
	texts := 0
	for _, forUser := range []string{"", "hello"} {
		for _, isError := range []bool{false, true} {
			for _, silent := range []bool{false, true} {
				for _, action := range []string{"", tools.ActionAgent, bus.Heartbeat, bus.Cron} {
					res := &tools.Result{ForLLM: `{"id":1}`, ForUser: forUser, IsError: isError, Silent: silent}
					event := tools.NewResultEvent(tools.Call{ID: "1", Session: "s", Tool: "t", Action: action}, res)
					body, err := bus.Encode(event)
					if err != nil {
						t.Fatal(err)
					}
					if text := userText(channel.KindResult, event); text != "" {
						texts++
						if hasNoText(body) {
							t.Errorf("%s: the text %q would be lost", body, text)
						}
					}
				}
			}
		}
	}
	if texts == 0 {
		t.Error("no result had a text")
	}
	body, err := bus.Encode(tools.NewResultEvent(tools.Call{ID: "1", Tool: "t", Channel: "c"}, tools.NewToolResult(`"for_user":`)))
	if err != nil || !hasNoText(body) {
		t.Errorf("%s, %v: a result without a text is decoded", body, err)
	}
	for _, body := range []string{"", "garbage", `["for_user"]`, `{"stream":"S","seq":1}`} {
		if hasNoText([]byte(body)) {
			t.Errorf("%q is not from a worker, but counts as a result", body)
		}
	}
}
