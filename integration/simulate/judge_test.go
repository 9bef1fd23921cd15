package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/offload"
)

// judge holds the ledger against what the server has at the end. It knows the protocol of
// docs/protocol.md, and nothing of the code.
func (s *simulation) judge() (checked int) {
	ctx := context.Background()
	results, err := s.client.JetStream().Stream(ctx, "STEVEDORE_RESULTS")
	if err != nil {
		s.t.Fatal(err)
	}
	reader := offload.NewReader(s.openStore(s.client), offload.ReaderConfig{})
	l := s.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	fail := func(format string, a ...any) { s.t.Errorf(format, a...) }
	for id, p := range l.accepted {
		checked++
		res, ok := read(ctx, results, "result", p)
		if !ok {
			fail("%s (%s): accepted, and no result", id, p.tool)
			continue
		}
		if p.tool == "once" && len(l.runs[id]) > 1 {
			fail("%s: a once-only call ran %d times: %v", id, len(l.runs[id]), l.runs[id])
		}
		end := res
		if res.Outcome == "async" {
			if end, ok = read(ctx, results, "completion", p); !ok {
				fail("%s: an async call without a completion", id)
				continue
			}
		}
		switch {
		case end.Outcome == "completed":
			if p.reply != "" {
				checked++
				s.judgeRun(ctx, results, p, end, fail)
				break
			}
			if !p.raw && len(l.runs[id]) == 0 {
				fail("%s: completed, and never ran", id)
			}
			if text := s.wholeText(ctx, reader, p, end); text != output(id, p.size) {
				fail("%s: the result has %d characters and begins with %.60q, want %d", id, len(text), text, len(output(id, p.size)))
			}
			if p.user != "" && countOf(l.sent[p.chat], p.user) != 1 {
				fail("%s: the user got %d times %q, want once", id, countOf(l.sent[p.chat], p.user), p.user)
			}
		case end.Outcome == "cancelled" && p.cancelled:
		case end.Outcome == "unknown" && (p.tool == "once" || p.tool == "async"):
		default:
			fail("%s (%s): outcome %s: %s", id, p.tool, end.Outcome, end.ForLLM)
		}
	}
	for _, wrong := range l.wrongs {
		fail("%s", wrong)
	}
	for chat, told := range l.told {
		checked++
		var got []string
		for _, text := range l.sent[chat] {
			if strings.HasPrefix(text, "message ") {
				got = append(got, text)
			}
		}
		var want []string
		for n := range len(told) {
			want = append(want, fmt.Sprintf("message %d", n+1))
		}
		if !slices.Equal(got, want) {
			fail("%s got %q, want %q", chat, got, want)
		}
	}
	// A job may miss ticks while the server is away, and then goes on.
	for job := range jobs {
		checked++
		last := s.began
		for _, at := range append(l.jobs[job], time.Now()) {
			if gap := at.Sub(last); gap > jobPause {
				fail("%s did not run between %s and %s (%v)", job, last.Format(time.TimeOnly), at.Format(time.TimeOnly), gap)
			}
			last = at
		}
	}
	for stream, wanted := range map[string]uint64{"STEVEDORE_CALLS": 0, "STEVEDORE_OUTBOX": 0} {
		checked++
		if st, err := s.client.JetStream().Stream(ctx, stream); err != nil {
			fail("%s at the end: %v", stream, err)
		} else if state := st.CachedInfo().State; state.Msgs != wanted {
			fail("%s at the end: %+v", stream, state)
		}
	}
	return checked
}

// judgeRun holds the run of an agent against its promise: one answer, which its user got once, and one
// call of a tool, which ran as its effect says.
func (s *simulation) judgeRun(ctx context.Context, results jetstream.Stream, p *promise, end event, fail func(string, ...any)) {
	if end.ForLLM != p.reply {
		fail("%s: the agent answered %.60q", p.id, end.ForLLM)
	}
	if got := countOf(s.ledger.sent[p.chat], p.user); got != 1 {
		fail("%s: the user got %d times %q, want once", p.id, got, p.user)
	}
	call := p.id + "-t1-0"
	res, ok := read(ctx, results, "result", &promise{session: p.session, id: call})
	switch runs := len(s.ledger.runs[call]); {
	case !ok || res.Outcome != "completed" && (res.Outcome != "unknown" || res.Tool != "once"):
		fail("%s: the outcome of the call of the agent is %q", call, res.Outcome)
	case runs == 0 && res.Outcome == "completed", runs > 1 && res.Tool == "once":
		fail("%s (%s): ran %d times", call, res.Tool, runs)
	}
}

// event is what the judges read of a result or a completion.
type event struct {
	Tool     string `json:"tool"`
	Outcome  string `json:"outcome"`
	ForLLM   string `json:"for_llm"`
	Artifact *struct {
		ID string `json:"artifact_id"`
	} `json:"artifact"`
}

func read(ctx context.Context, results jetstream.Stream, kind string, p *promise) (e event, ok bool) {
	m, err := results.GetLastMsgForSubject(ctx, fmt.Sprintf("stevedore.%s.%s.%s", kind, p.session, p.id))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return e, false
	}
	if err == nil {
		err = json.Unmarshal(m.Data, &e)
	}
	if err != nil {
		e.Outcome = err.Error()
	}
	return e, true
}

// wholeText returns the text of a result, from its artifact if it has one.
func (s *simulation) wholeText(ctx context.Context, reader *offload.Reader, p *promise, e event) string {
	if e.Artifact == nil {
		return e.ForLLM
	}
	var text strings.Builder
	for offset := int64(0); ; {
		page, err := reader.GetByID(ctx, p.session, e.Artifact.ID, offset, 0)
		if err != nil {
			return err.Error()
		}
		text.WriteString(page.Content)
		if page.NextOffset == 0 {
			return text.String()
		}
		offset = page.NextOffset
	}
}

func countOf(list []string, text string) (n int) {
	for _, s := range list {
		if s == text {
			n++
		}
	}
	return n
}
