package console_test

import (
	"net/http"
	"testing"

	"github.com/stevedore-bus/stevedore/cmd/internal/console"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// The page shows what the agents used, in groups, with the share of each.
func TestUsage(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	in := start(t, console.Config{})
	turn := `{"kind":"assistant","run":"r","model":"<m>","usage":{"input_tokens":30,"output_tokens":3,"cost":0.5}}`
	in.say("s", turn, "not JSON", turn)
	type used struct {
		Used []struct {
			Of    string
			Turns int
		}
	}
	if u := get[used](in, "/api/usage?by=model"); len(u.Used) != 1 || u.Used[0].Of != "<m>" || u.Used[0].Turns != 2 {
		t.Errorf("by model: %+v", u)
	}
	if status, body := in.request("GET", "/api/usage?by=moon", ""); status != http.StatusBadRequest {
		t.Errorf("by moon: %d %s", status, body)
	}
	b := browse(t, in, 390, 844)
	b.open("usage?by=model", "Share of the cost")
	b.shows("<m>")
	if got := b.eval("document.querySelector('td.fill').innerText.trim()"); got != "100 %" {
		t.Errorf("the share of the only model is %s", got)
	}
	b.eval("document.querySelector('tbody th').innerText = 'jq_knowledge_of_all'")
	if at := b.eval("[...document.querySelectorAll('tbody td')][2].getBoundingClientRect().right > innerWidth"); at != "false" {
		t.Error("the cost is outside of the screen")
	}
	b.screenshot("usage")
	b.accessible()
}
