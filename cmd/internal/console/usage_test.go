package console_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/cmd/internal/console"
)

type dayHour struct {
	Calls, Failed int
	Tokens        int64
	Cost          float64
}

// The last day counts each call and each turn once, also those that come later; a request reads
// a bounded number.
func TestTheLastDay(t *testing.T) {
	if testing.Short() {
		t.Skip("20,000 results take long under the race detector")
	}
	t.Parallel()
	in := &installation{t: t, bus: bustest.New(t)}
	in.serve(console.Config{})
	end := func(kind, id, outcome string) {
		subject := in.bus.Result("s", id)
		if kind == "completion" {
			subject = in.bus.Completion("s", id)
		}
		if _, err := in.bus.JetStream().PublishAsync(subject, fmt.Appendf(nil, `{"id":%q,"session":"s","outcome":%q}`, id, outcome), jetstream.WithStallWait(bustest.Timeout)); err != nil {
			t.Fatal(err)
		}
	}
	const calls = 20_100 // a request reads 20,000
	for i := range calls {
		end("result", fmt.Sprint("c", i), map[bool]string{true: "failed", false: "completed"}[i%100 == 0])
	}
	end("result", "background", "async")
	end("completion", "background", "timeout")
	<-in.bus.JetStream().PublishAsyncComplete()
	turn := `{"kind":"assistant","run":"r","model":"<m>","usage":{"input_tokens":30,"output_tokens":3,"cost":0.5}}`
	in.say("s", turn, "not JSON", turn)
	type day struct {
		Hours []dayHour
		More  bool
	}
	read := func() (sum dayHour, more bool) {
		d := get[day](in, "/api/day")
		if len(d.Hours) != 24 {
			t.Fatalf("%d hours", len(d.Hours))
		}
		for _, h := range d.Hours {
			sum.Calls, sum.Failed, sum.Tokens, sum.Cost = sum.Calls+h.Calls, sum.Failed+h.Failed, sum.Tokens+h.Tokens, sum.Cost+h.Cost
		}
		return sum, d.More
	}
	if sum, more := read(); sum.Calls != 20_000 || !more {
		t.Errorf("the first request: %+v, more %v", sum, more)
	}
	want := dayHour{Calls: calls + 1, Failed: 202, Tokens: 66, Cost: 1}
	if sum, more := read(); sum != want || more {
		t.Errorf("the second request: %+v, want %+v, more %v", sum, want, more)
	}
	in.say("s", turn)
	if sum, _ := read(); sum != (dayHour{calls + 1, 202, 99, 1.5}) {
		t.Errorf("after a turn: %+v", sum)
	}
	type used struct {
		Used []struct {
			Of    string
			Turns int
		}
	}
	if u := get[used](in, "/api/usage?by=model"); len(u.Used) != 1 || u.Used[0].Of != "<m>" || u.Used[0].Turns != 3 {
		t.Errorf("by model: %+v", u)
	}
	if status, body := in.request("GET", "/api/usage?by=moon", ""); status != http.StatusBadRequest {
		t.Errorf("by moon: %d %s", status, body)
	}
	b := browse(t, in, 390, 844)
	b.open("usage?by=model", "20,101 calls, 202 failed")
	b.shows("<m>")
	b.shows("Share of the cost")
	if got := b.eval("document.querySelector('td.fill').innerText.trim()"); got != "100 %" {
		t.Errorf("the share of the only model is %s", got)
	}
	b.until("document.querySelectorAll('.axis.hours')[0].children.length === 4")
	b.shows("The busiest hour: ")
	b.screenshot("usage")
	b.accessible()
}
