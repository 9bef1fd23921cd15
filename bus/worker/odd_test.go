package worker_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/bus/worker/workertest"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/mem"
	"github.com/stevedore-bus/stevedore/tools"
)

// What a stock client may write into a call or a raw result, and into its headers.
var (
	oddHeaders = []string{"Stevedore-Id", bus.OrderHeader, "Stevedore-Parked", "Stevedore-Parked-State", bus.ArgsHeader, "Stevedore-Started",
		bus.FreshHeader, bus.PriorityHeader, "Stevedore-Held", nats.MsgSize, "traceparent", "Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp"}
	oddValues = []string{"", "1", "18446744073709551615", "-1", "high", "urgent", strings.Repeat("x", 5000), "2020-01-01T00:00:00Z",
		"9999-12-31T00:00:00Z", "args-c", "waiting", "input_required", "\x00\xff"}
	oddIDs    = []string{"", `"id":"ID",`, `"id":"other",`, `"session":"s",`, `"session":"other",`, `"id":"ID","session":"s",`}
	oddArgs   = []string{`{"text":"x"}`, `{"text":"x"}`, `null`, `[]`, `"x"`, `{"text":1}`, `{"text":{"$artifact":"none"}}`}
	oddFields = []string{"", "", `,"deadline":"0001-01-01T00:00:00Z"`, `,"deadline":"9999-12-31T23:59:59Z"`, `,"deadline":1`, `,"priority":"urgent"`, `,"tool":"other"`,
		`,"offload":"x"`, `,"delivery":null`, `,"channel":{}`, `,"chat_id":"x"`, `,"action":"cron"`}
	oddResults = []string{`,"for_llm":"x"`, `,"content":[]`, `,"content":"x"`, `,"for_llm":"x","content":"y"`, `,"is_error":true`, `,"for_llm":"x","exit_code":1.5`}
	oddBodies  = []string{"\ufeffBODY", "null", "[]", "", "\xff", strings.Repeat("[", 20_000)}
)

// Each call and raw result of a stock client ends in a result or a dead letter, whatever it contains.
func TestOddCallsEnd(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var runs atomic.Int64
		seed := rand.Uint64()
		t.Log("seed", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		one := func(of []string) string { return of[random.IntN(len(of))] }
		sent := map[string]*nats.Msg{}
		for i := range 300 {
			id, kind, result := fmt.Sprint("c", i), "call", ""
			if i%4 == 0 {
				kind, result = "raw", one(oddResults)
			}
			body := "{" + one(oddIDs) + `"args":` + one(oddArgs) + one(oddFields) + result + "}"
			if random.IntN(8) == 0 {
				body = strings.Replace(one(oddBodies), "BODY", body, 1)
			}
			m := nats.NewMsg("stevedore." + kind + ".default." + one([]string{"echo", "once", "keyed", "unknown", "blocking"}) + ".s." + id)
			m.Data = []byte(strings.Replace(body, "ID", id, 1))
			for range random.IntN(4) {
				m.Header[one(oddHeaders)] = []string{one(oddValues), one(oddValues)}
			}
			if i == 0 { // no artifact has arguments of a raw result
				m.Data, m.Header = []byte(`{"for_llm":"x"}`), nats.Header{"Stevedore-Id": {"x"}, bus.ArgsHeader: {"none"}}
			}
			if _, err := b.JetStream().PublishMsg(t.Context(), m); err != nil {
				t.Fatalf("%q: %v", m.Data, err)
			}
			sent[id] = m
		}
		store := mem.New(offload.StoreConfig{})
		async := blockingAsync{release: make(chan struct{})}
		close(async.release)
		workertest.Start(t, b, offload.NewOffloader(store, offload.Config{}), worker.Config{Reader: offload.NewReader(store, offload.ReaderConfig{})}, async,
			echo(t, "echo", tools.Idempotent, &runs, nil), echo(t, "once", tools.Once, &runs, nil), echo(t, "keyed", tools.Keyed, &runs, nil))
		waitEmpty(t, b)
		page, err := dead.ListPage(t.Context(), b, dead.Query{})
		if err != nil {
			t.Fatal(err)
		}
		letters := map[string]bool{}
		for _, l := range page.Letters {
			letters[l.Subject] = true
		}
		for id, m := range sent {
			if _, ok := event(t, b, b.Result("s", id)); !ok && !letters[m.Subject] {
				t.Errorf("%s has neither a result nor a dead letter: %.300q %.300q", m.Subject, m.Data, m.Header)
			}
		}
	})
}
