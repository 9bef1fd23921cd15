package console_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/cmd/internal/console"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// fillCalls submits calls to a queue without a worker until the stream rejects them.
func fillCalls(t *testing.T, b *bus.Bus) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"args": map[string]string{"x": strings.Repeat("x", 60_000)}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Call("gpu", "train", "s", fmt.Sprint("c", i)), Body: body}); err != nil {
			return
		}
	}
	t.Fatal("the stream takes everything")
}

// With a full stream and without any worker, the page says what is wrong, shows the calls
// that wait although no worker ever served their queue, and leads to the view that helps.
func TestPageOfAFullStreamWithoutWorkers(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	b := bustest.Connect(t, bustest.Server(t), bus.Config{Log: bustest.Log(t), StreamBytes: map[string]int64{"calls": 1 << 20}})
	fillCalls(t, b)
	in := &installation{t: t, bus: b}
	in.serve(console.Config{})

	waiting := get[struct{ Waiting []struct{ Queue string } }](in, "/api/waiting").Waiting
	if len(waiting) == 0 || waiting[0].Queue != "gpu" {
		t.Errorf("waiting calls: %+v", waiting)
	}
	if status, body := in.request("POST", "/api/sessions/s/messages", `{"prompt":"`+strings.Repeat("x", 60_000)+`"}`); status == 200 || !strings.Contains(body, "full") {
		t.Errorf("a message while the stream is full: %d %.300s", status, body)
	}

	page := browse(t, in, 390, 844)
	page.open("now", "The stream STEVEDORE_CALLS is")
	page.shows("No worker answers")
	page.shows("queue gpu")
	page.eval("document.querySelector('.problem a').click()")
	page.until("location.hash === '#/system' && document.querySelector('main').innerText.includes('STEVEDORE_CALLS')")
	if wide := page.eval("document.documentElement.scrollWidth > innerWidth"); wide != "false" {
		t.Error("the page is wider than a phone")
	}
}
