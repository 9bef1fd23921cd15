package console_test

import (
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/cmd/internal/console"
	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/tools"
)

type dayHour struct {
	Calls, Failed int
	Tokens        int64
	Cost          float64
}

// The last day counts each call and each turn once, also those that come later; a request reads
// a bounded number.
func TestTheLastDay(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	if testing.Short() {
		t.Skip("20,000 results take long under the race detector")
	}
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
	b.eval("document.querySelector('tbody th').innerText = 'jq_knowledge_of_all'")
	if at := b.eval("[...document.querySelectorAll('tbody td')][2].getBoundingClientRect().right > innerWidth"); at != "false" {
		t.Error("the cost is outside of the screen")
	}
	b.screenshot("usage")
	b.accessible()
	if got := b.eval("document.body.innerText.includes('Jobs and heartbeats')"); got != "false" {
		t.Error("jobs are shown, although none ran")
	}
}

// What anybody may write to the streams of results and sessions does not end the view of the day.
func TestForgedDay(t *testing.T) {
	t.Parallel()
	in := start(t, console.Config{})
	dear := `{"kind":"assistant","run":"r","model":"m","usage":{"cost":1e308}}`
	in.say("s", dear, dear)
	if _, err := in.bus.Publish(t.Context(), bus.Message{Subject: in.bus.Result("s", "forged"), Body: []byte(`{"stream":"x","seq":1}`)}); err != nil {
		t.Fatal(err)
	}
	var sum dayHour
	for _, h := range get[struct{ Hours []dayHour }](in, "/api/day").Hours {
		sum.Calls, sum.Cost = sum.Calls+h.Calls, max(sum.Cost, h.Cost)
	}
	if sum != (dayHour{Cost: math.MaxFloat64}) {
		t.Errorf("%+v", sum)
	}
}

// Each job, and each heartbeat, has one line with its runs of the last day. What only looks like a
// run of a job has none, and forged times make no line longer than a day.
func TestJobsOnTheDay(t *testing.T) {
	slow.Test(t)
	needBrowser(t)
	t.Parallel()
	in := start(t, console.Config{})
	now := time.Now().UTC()
	session := "night"
	ran := func(kind, id, action, outcome string, at time.Time, ms int64) {
		subject := in.bus.Result(session, id)
		if kind == "completion" {
			subject = in.bus.Completion(session, id)
		}
		body := fmt.Appendf(nil, `{"id":%q,"session":%q,"tool":"shell","outcome":%q,"action":%q,"started_at":%q,"duration_ms":%d}`,
			id, session, outcome, action, at.Format(time.RFC3339Nano), ms)
		if _, err := in.bus.Publish(t.Context(), bus.Message{Subject: subject, Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		ran("result", fmt.Sprintf("cron-backup-2026112%dT040000Z", i), "cron", "completed", now.Add(time.Duration(-6*i)*time.Hour), 7_200_000)
	}
	ran("result", "cron-tides-20261122T040000Z", "cron", "failed", now, 9)
	ran("result", "cron-tides-20261122T041000Z", "cron", "completed", now, 9)
	ran("result", "heartbeat-main-20261122T040000Z", "heartbeat", "async", now, 9)
	ran("completion", "heartbeat-main-20261122T040000Z", "heartbeat", "completed", now, 9)
	ran("result", "cron-forged-20261122T040000Z", "cron", "timeout", now.Add(1000*time.Hour), 1<<60)
	ran("result", "cron-forged-20261123T040000Z", "cron", "completed", time.Time{}, -1)
	ran("result", "cron-client-20261122T040000Z", "", "completed", now, 9)
	ran("result", "mine", "cron", "completed", now, 9)
	ran("result", "cron-backup-20261122T040000Z-t1-0", "agent", "completed", now, 9)
	session = "other" // has a job of the same name
	ran("result", "cron-tides-20261122T040000Z", "cron", "completed", now, 9)

	type day struct {
		Jobs []struct {
			Kind, Name, Session string
			Slots               []struct {
				At           time.Time
				Runs, Failed int
			}
			Last, LastFailed *tools.CallKey
		}
	}
	lines := ""
	for _, j := range get[day](in, "/api/day").Jobs {
		lines += j.Kind + " " + j.Name + " " + j.Session
		for _, s := range j.Slots {
			lines += fmt.Sprintf(" %d/%d", s.Failed, s.Runs)
			if age := now.Sub(s.At); age < -time.Hour || age > 24*time.Hour {
				t.Errorf("%s has a run at %s", j.Name, s.At)
			}
		}
		lines += "\n"
	}
	if want := "heartbeat main night 0/1\ncron backup night 0/1 0/1 0/1\ncron forged night 1/2\ncron tides night 1/2\ncron tides other 0/1\n"; lines != want {
		t.Errorf("the jobs are\n%s, want\n%s", lines, want)
	}
	for _, width := range []int64{1440, 390} {
		b := browse(t, in, width, 844)
		b.open("usage", "Jobs and heartbeats on this day")
		if got := b.eval("[...document.querySelectorAll('.job')].map(j => j.querySelector('b').innerText + ' ' + j.querySelectorAll('.dayline i').length + ' ' + j.querySelectorAll('.dayline .bad').length)"); got != "main 1 0,backup 3 0,forged 1 1,tides 1 1,tides 1 0" {
			t.Errorf("the lines are %s", got)
		}
		b.shows("2 runs, 1 failed")
		if wide := b.eval("document.documentElement.scrollWidth > innerWidth"); wide != "false" {
			t.Errorf("the jobs are wider than %d px", width)
		}
		if ok := b.eval("(w => w[1] > 5 * w[0])(['main', 'backup'].map(n => [...document.querySelectorAll('.job')].find(j => j.innerText.includes(n)).querySelector('i').offsetWidth))"); ok != "true" {
			t.Error("a run of two hours is not longer than one of 9 ms")
		}
		b.accessible()
		b.eval("document.querySelector('.job').scrollIntoView()")
		b.screenshot(fmt.Sprint("jobs-", width))
		b.media("forced-colors", "active")
		if got := b.eval("new Set(['.dayline', '.dayline .bad', '.dayline .done'].map(s => getComputedStyle(document.querySelector(s)).backgroundColor)).size"); got != "3" {
			t.Error("with forced colours, the runs are not visible")
		}
		b.eval("[...document.querySelectorAll('.job a')].find(a => a.innerText === 'last failure' && a.href.includes('tides')).click()")
		b.until("location.hash === '#/calls/night/cron-tides-20261122T040000Z'")
	}
}
