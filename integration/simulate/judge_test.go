package simulate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/offload"
)

// attempts is how often a call runs that kills its workers (docs/design.md).
const attempts = 5

// judge holds the ledger against what the server has at the end. It knows the protocol of
// docs/protocol.md, and nothing of the code.
func (s *simulation) judge() (checked int) {
	ctx := context.Background()
	if n := runtime.NumGoroutine(); s.host == nil && n > s.goroutines+20 {
		var stacks strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1) // a builder takes all
		s.t.Errorf("%d goroutines at the end, and %d at the start:\n%s", n, s.goroutines, stacks.String())
	}
	results, err := s.records(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	reader := offload.NewReader(s.openStore(s.client), offload.ReaderConfig{})
	l := s.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	fail := func(format string, a ...any) {
		text := strings.TrimSpace(s.ledger.tenant + " " + fmt.Sprintf(format, a...))
		s.t.Error(text + s.happened(callName.FindString(text)))
	}
	l.judgeConversations(fail)
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
		checked += s.judgeDeadline(p, end, fail)
		if l.mayLackText(id, end) && p.size > 0 && (end.Outcome == "completed" || end.Error.Code == "offload_failed") {
			if text := end.ForLLM; len(text) > 50_000 || !strings.Contains(text, "could not be stored") || !strings.Contains(text, output(s.ledger.tenant+id, 0)) {
				fail("%s: its store failed, and its result has %d characters and begins with %.100q", id, len(text), text)
			}
		}
		if at := l.informed[id]; at.After(end.at) {
			fail("%s ran at %s, and has its result at %s", id, at.Format(time.TimeOnly), end.at.Format(time.TimeOnly))
		}
		if l.lacking[id] && !l.isAbandoned(id, end) {
			fail("%s: its conversation went on without its answer", id)
		}
		switch {
		case p.tree != "":
			s.judgeTree(ctx, results, p, end, fail)
		case p.reply != "" && l.isAbandoned(id, end):
		case end.Outcome == "completed":
			if p.reply != "" {
				checked++
				s.judgeRun(ctx, results, p, end, fail)
				break
			}
			if !p.raw && len(l.runs[id]) == 0 {
				fail("%s: completed, and never ran", id)
			}
			if text := s.wholeText(ctx, reader, p, end); text != output(s.ledger.tenant+id, p.size) && !l.mayLackText(id, end) {
				fail("%s: the result has %d characters and begins with %.60q, want %d", id, len(text), text, len(output(s.ledger.tenant+id, p.size)))
			}
			if p.user != "" && countOf(l.sent[p.chat], p.user) != 1 {
				fail("%s: the user got %d times %q, want once", id, countOf(l.sent[p.chat], p.user), p.user)
			}
		case end.Outcome == "failed" && end.Error.Code == "offload_failed" && l.mayLackText(id, end):
		case end.Outcome == "cancelled" && p.cancelled:
		case end.Error.Code == "denied" && p.isDenied() && len(l.runs[id]) == 0:
		case end.isLate() && !p.deadline.IsZero() && !end.at.Before(p.deadline):
			if end.Error.Code == "denied" && (p.tool != "asked" || len(l.runs[id]) > 0) {
				fail("%s (%s): %s after the runs %v", id, p.tool, end.ForLLM, l.runs[id])
			}
		case end.Outcome == "unknown" && (p.tool == "once" || p.tool == "async"):
		default:
			fail("%s (%s): outcome %s: %s", id, p.tool, end.Outcome, end.ForLLM)
		}
	}
	checked += s.judgeRegisters(fail)
	for _, wrong := range l.wrongs {
		fail("%s", wrong)
	}
	for chat, told := range l.told {
		checked++
		var got, want []string
		for _, text := range l.sent[chat] {
			if number, ok := strings.CutPrefix(text, s.ledger.tenant+"message "); ok && !rejects(chat+"-"+number) {
				got = append(got, text)
			}
		}
		for n := range len(told) {
			text, id := fmt.Sprintf("%smessage %d", s.ledger.tenant, n+1), fmt.Sprintf("%s-%d", chat, n+1)
			if !rejects(id) {
				want = append(want, text)
			} else if countOf(l.sent[chat], text) != 1 { // it was a dead letter, and later ones went on
				fail("%s got %d times %q, want once", chat, countOf(l.sent[chat], text), text)
			}
		}
		if !slices.Equal(got, want) {
			fail("%s got %q, want %q", chat, got, want)
		}
	}
	if s.host == nil { // the neighbour has none of these
		checked += s.judgeJobs(ctx, results, fail)
	}
	checked += l.judgeMadeJobs(ctx, results, fail)
	for _, calm := range l.calms {
		checked += s.judgeBacklog(ctx, results, calm, fail) + s.judgeCalm(ctx, results, calm, fail)
	}
	if info, err := results.Info(ctx, jetstream.WithSubjectFilter(s.subject(">"))); err != nil {
		fail("the results: %v", err)
	} else {
		for subject, n := range info.State.Subjects {
			if n > 1 {
				fail("%s has %d messages, want one", subject, n)
			}
		}
	}
	for stream, wanted := range map[string]uint64{"CALLS": 0, "OUTBOX": 0, "DEAD": 0} {
		checked++
		if st, err := s.client.JetStream().Stream(ctx, s.stream(stream)); err != nil {
			fail("%s at the end: %v", stream, err)
		} else if state := st.CachedInfo().State; state.Msgs != wanted {
			fail("%s at the end: %+v", stream, state)
		}
	}
	return checked
}

// judgeRun holds the run of an agent against its promise: one answer, which its user got once, and one
// call of a tool, which ran as its effect says.
func (s *simulation) judgeRun(ctx context.Context, results records, p *promise, end event, fail func(string, ...any)) {
	if end.ForLLM != p.reply {
		fail("%s: the agent answered %.60q", p.id, end.ForLLM)
	}
	if got := countOf(s.ledger.sent[p.chat], p.user); got != 1 {
		fail("%s: the user got %d times %q, want once", p.id, got, p.user)
	}
	calls := 0
	for turn := 1; turn < 30; turn++ { // there are others if the model answered with garbage
		call := fmt.Sprintf("%s-t%d-0", p.id, turn)
		res, ok := read(ctx, results, "result", &promise{session: p.session, id: call})
		if !ok {
			continue
		}
		calls++
		if res.Outcome == "async" {
			if res, ok = read(ctx, results, "completion", &promise{session: p.session, id: call}); !ok {
				fail("%s: an async call of the agent without a completion", call)
			}
			if n := s.notices(ctx, p.session)["completion."+p.session+"."+call]; n != 1 {
				fail("%s: its completion is %d times in the conversation, want once", call, n)
			}
		}
		switch runs := len(s.ledger.runs[call]); {
		case res.Outcome != "completed" && (res.Outcome != "unknown" || res.Tool != "once" && res.Tool != "async") && !s.ledger.mayLackText(call, res):
			fail("%s: the outcome of the call of the agent is %q: %s", call, res.Outcome, res.ForLLM)
		case runs == 0 && res.Outcome == "completed", runs > 1 && res.Tool == "once":
			fail("%s (%s): ran %d times", call, res.Tool, runs)
		}
	}
	if calls != 1 {
		fail("%s: the agent made %d calls, want one", p.id, calls)
	}
}

// notices counts the notices in a conversation, by their ids.
func (s *simulation) notices(ctx context.Context, session string) map[string]int {
	ids := map[string]int{}
	stream, err := s.client.JetStream().Stream(ctx, s.stream("SESSIONS"))
	for sequence := uint64(1); err == nil; sequence++ {
		var m *jetstream.RawStreamMsg
		if m, err = stream.GetMsg(ctx, sequence, jetstream.WithGetMsgSubject(s.subject("session."+session))); err != nil {
			break
		}
		var entry struct{ Notice struct{ ID string } }
		err = json.Unmarshal(m.Data, &entry)
		ids[entry.Notice.ID]++
		sequence = m.Sequence
	}
	if !errors.Is(err, jetstream.ErrMsgNotFound) {
		s.t.Error(err)
	}
	return ids
}

// judgeDeadline holds a call with a deadline against its promise: its tool does not start afterwards, and what it
// does not complete by then counts as not completed.
func (s *simulation) judgeDeadline(p *promise, end event, fail func(string, ...any)) (checked int) {
	if p.deadline.IsZero() {
		return 0
	}
	runs := s.ledger.runs[p.id]
	if n := len(runs); n > 0 && runs[n-1].After(p.deadline) {
		fail("%s (%s) began after its deadline of %s: %v", p.id, p.tool, p.deadline.Format(time.TimeOnly), runs)
	}
	inTime := func(run time.Time) bool { return !run.Add(time.Duration(p.ms) * time.Millisecond).After(p.deadline) }
	if end.Outcome == "completed" && !slices.ContainsFunc(runs, inTime) {
		fail("%s (%s) has a deadline of %s, takes %d ms, and completed: %v", p.id, p.tool, p.deadline.Format(time.TimeOnly), p.ms, runs)
	}
	return 1
}

// judgeJobs holds the jobs against their promise: they may miss ticks while the server is away, and then go on.
func (s *simulation) judgeJobs(ctx context.Context, results records, fail func(string, ...any)) (checked int) {
	for job, of := range jobs {
		checked++
		last := s.began
		for _, run := range append(s.ledger.jobs[job], jobRun{at: time.Now()}) {
			if gap := run.at.Sub(last); gap > jobPause+of.every-jobInterval {
				fail("%s did not run between %s and %s (%v)", job, last.Format(time.TimeOnly), run.at.Format(time.TimeOnly), gap)
			}
			last = run.at
		}
		s.judgeTicks(ctx, results, job, of.every, fail)
	}
	return checked
}

// judgeMadeJobs holds the jobs that clients made against their promises: one that runs once runs once when it is due, and
// none runs for a tick of a time in which it was disabled or removed. If the worker of a once-only call died before the call
// began, the call does not run, and its outcome says so.
func (l *ledger) judgeMadeJobs(ctx context.Context, results records, fail func(string, ...any)) (checked int) {
	for job, at := range l.due {
		checked++
		calls, want := map[string]bool{}, 1
		if at.IsZero() { // it was removed
			want = 0
		}
		for _, run := range l.jobs[job] {
			if calls[run.call] = true; run.at.Before(at) || run.at.Sub(at) > jobPause {
				fail("%s is due at %s, and ran at %s", job, at.Format(time.TimeOnly), run.at.Format(time.TimeOnly))
			}
		}
		if len(calls) == 0 && want == 1 {
			call := fmt.Sprintf("cron-%s-%sZ", job, at.UTC().Format("20060102T150405"))
			if res, ok := read(ctx, results, "result", &promise{session: "made", id: call}); ok && res.Tool == "once" && res.Outcome == "unknown" {
				continue
			}
		}
		if len(calls) != want {
			fail("%s is due at %s, and ran as %v", job, at.Format(time.TimeOnly), l.jobs[job])
		}
	}
	for job, stopped := range l.stopped {
		for _, during := range stopped {
			for _, run := range l.jobs[job] {
				checked++
				tick := due(run.call)
				inTime := tick.After(during.from.Add(time.Second)) && tick.Before(during.to)
				if inTime || run.at.Sub(during.from) > jobPause && run.at.Before(during.to) {
					fail("%s was stopped at %s, and ran at %s for the tick of %s", job, during.from.Format(time.TimeOnly),
						run.at.Format(time.TimeOnly), tick.Format(time.TimeOnly))
				}
			}
		}
	}
	return checked
}

// judgeTicks holds the ticks of a job against their promise: each makes at most one call, they are an interval apart, the
// calls begin in the order of the ticks, and a call begins only if the one before it has its result. One that became a dead
// letter has a result, and another one after somebody retried it. A server that starts counts a short interval anew.
func (s *simulation) judgeTicks(ctx context.Context, results records, job string, every time.Duration, fail func(string, ...any)) {
	seen := map[string]bool{}
	var last jobRun
	for _, run := range s.ledger.jobs[job] {
		if seen[run.call] { // a second attempt
			continue
		}
		seen[run.call] = true
		if gap := due(run.call).Sub(due(last.call)); gap <= 0 || gap < every-time.Second && !s.startedServer(due(last.call).Add(-every), due(run.call).Add(time.Second)) {
			fail("%s began at %s, after %s at %s", run.call, run.at.Format(time.TimeOnly), last.call, last.at.Format(time.TimeOnly))
		}
		before, ok := read(ctx, results, "result", &promise{session: "jobs", id: last.call})
		if last.call != "" && !s.ledger.retried[last.call] && (!ok || before.at.After(run.at)) {
			fail("%s began at %s, and %s has its result at %s", run.call, run.at.Format(time.TimeOnly), last.call, before.at.Format(time.TimeOnly))
		}
		last = run
	}
}

// startedServer says whether the server started between two times.
func (s *simulation) startedServer(from, to time.Time) bool {
	return slices.ContainsFunc(s.starts, func(at time.Time) bool { return !at.Before(from) && !at.After(to) })
}

// due returns the due time in the id of a scheduled call, or no time without one.
func due(call string) time.Time {
	if call == "" {
		return time.Time{}
	}
	stamp := call[strings.Index(call, "T")-len("20060102"):]
	digits, _, _ := strings.Cut(stamp, "Z")
	due, err := time.Parse("20060102T150405.999999999", digits[:15]+"."+digits[15:]+"0")
	if err != nil {
		panic(err)
	}
	return due
}

// judgeBacklog checks that work goes on when the faults have ended. A call that was accepted before the last fault must have
// ended after recovery, unless somebody retried it later: a long one that was interrupted begins again within two minutes.
// Runs of agents are left out: their provider fails at any time.
func (s *simulation) judgeBacklog(ctx context.Context, results records, c span, fail func(string, ...any)) (checked int) {
	for id, p := range s.ledger.accepted {
		if !p.at.Add(time.Duration(p.ms)*time.Millisecond).Before(c.from.Add(-recovery)) || p.reply != "" || s.ledger.retried[id] {
			continue
		}
		checked++
		end, _ := read(ctx, results, "result", p)
		if end.Outcome == "async" {
			end, _ = read(ctx, results, "completion", p)
		}
		again := c.from.Add(2*time.Minute + time.Duration(p.ms)*time.Millisecond - recovery)
		if end.at.After(c.from) && end.at.After(again) {
			fail("%s (%s) was accepted at %s, and ended at %s, although nothing has failed for %v before %s", id, p.tool, p.at.Format(time.TimeOnly),
				end.at.Format(time.TimeOnly), recovery, c.from.Format(time.TimeOnly))
		}
	}
	return checked
}

// judgeCalm holds a time without faults against what is promised only then: everything happens once,
// and soon.
func (s *simulation) judgeCalm(ctx context.Context, results records, c span, fail func(string, ...any)) (checked int) {
	within := func(times []time.Time) bool {
		return len(times) > 0 && times[0].After(c.from) && times[len(times)-1].Before(c.to)
	}
	l := s.ledger
	for id, times := range l.runs {
		if within(times) {
			if checked++; len(times) > 1 {
				fail("%s ran %d times although nothing failed: %v", id, len(times), times)
			}
		}
	}
	for id, times := range l.seen {
		if within(times) && !l.failed[id] {
			if checked++; len(times) > 1 {
				fail("%s was sent %d times although nothing failed: %v", id, len(times), times)
			}
		}
	}
	for id, p := range l.accepted {
		work, soon := time.Duration(p.ms)*time.Millisecond, soon
		if p.tool == "asked" {
			work += approvalPause
		}
		if p.priority == "low" {
			soon += floodTime
		}
		end := p.at.Add(work + soon)
		punctual := p.deadline.IsZero() || p.deadline.After(end) && !p.isIgnored()
		if !punctual {
			end = slices.MaxFunc([]time.Time{p.at, p.deadline}, time.Time.Compare).Add(soon)
		}
		if p.reply != "" || p.flood || p.at.Before(c.from) || end.After(c.to) {
			continue
		}
		checked++
		kind := "result"
		if p.tool == "async" && !p.raw {
			kind = "completion"
		}
		e, _ := read(ctx, results, kind, p)
		if punctual && e.isLate() && !p.isDenied() {
			fail("%s was accepted at %s, runs for %d ms, and missed its deadline of %s although nothing failed", id, p.at.Format(time.TimeOnly), p.ms, p.deadline.Format(time.TimeOnly))
		}
		if e.at.After(end) {
			fail("%s has its %s at %s although nothing failed", id, kind, e.at.Format(time.TimeOnly))
		}
	}
	checked += l.judgeOrder(c, fail)
	for job, of := range jobs {
		interval := of.every // of the ticks that find no run of an earlier one
		for interval < time.Duration(of.ms)*time.Millisecond {
			interval += of.every
		}
		times := []time.Time{c.from}
		for _, run := range l.jobs[job] {
			if run.at.After(c.from) && run.at.Before(c.to) {
				times = append(times, run.at)
			}
		}
		for i, at := range append(times[1:], c.to) {
			gap := at.Sub(times[i])
			if checked++; gap > interval+soon || gap < interval-soon && i > 0 && at != c.to {
				fail("%s ran at %s and at %s although nothing failed", job, times[i].Format(time.TimeOnly), at.Format(time.TimeOnly))
			}
		}
	}
	return checked
}

// judgeOrder holds the calls of a session that waits against their promise: they begin in the order of the queue.
func (l *ledger) judgeOrder(c span, fail func(string, ...any)) (checked int) {
	var waiting []*promise
	for _, p := range l.accepted {
		if p.flood && p.at.After(c.from) && p.at.Before(c.to) && len(l.runs[p.id]) > 0 {
			waiting = append(waiting, p)
		}
	}
	slices.SortFunc(waiting, func(p, q *promise) int { return cmp.Compare(p.sequence, q.sequence) })
	for i := 1; i < len(waiting); i++ {
		checked++
		if p, q := waiting[i-1], waiting[i]; l.runs[q.id][0].Before(l.runs[p.id][0]) {
			fail("%s began at %s, and %s behind it at %s", p.id, l.runs[p.id][0].Format(time.TimeOnly), q.id, l.runs[q.id][0].Format(time.TimeOnly))
		}
	}
	return checked
}

// floodTime is how long a flood takes, in which calls with a low priority wait.
const floodTime = 20 * time.Second

// soon is how long something may take without faults, beside the time that a tool runs.
const soon = 5 * time.Second

// event is what the judges read of a result or a completion.
type event struct {
	at      time.Time // when it was stored
	Tool    string    `json:"tool"`
	Outcome string    `json:"outcome"`
	ForLLM  string    `json:"for_llm"`
	Error   struct {
		Code string `json:"code"`
	} `json:"error"`
	Artifact *struct {
		ID string `json:"artifact_id"`
	} `json:"artifact"`
}

// isLate reports whether the call ended because of its deadline.
func (e event) isLate() bool {
	return e.Outcome == "timeout" || e.Outcome == "failed" && e.Error.Code == "denied"
}

// records is the stream of the results of an installation.
type records struct {
	jetstream.Stream
	of *simulation
}

func (s *simulation) records(ctx context.Context) (records, error) {
	stream, err := s.client.JetStream().Stream(ctx, s.stream("RESULTS"))
	return records{stream, s}, err
}

// stream and subject name what a tenant has as docs/protocol.md does.
func (s *simulation) stream(name string) string {
	return strings.ToUpper(cmp.Or(s.ledger.tenant, "stevedore")) + "_" + name
}

func (s *simulation) subject(rest string) string {
	return cmp.Or(s.ledger.tenant, "stevedore") + "." + rest
}

func read(ctx context.Context, results records, kind string, p *promise) (e event, ok bool) {
	m, err := results.GetLastMsgForSubject(ctx, results.of.subject(fmt.Sprintf("%s.%s.%s", kind, p.session, p.id)))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return e, false
	}
	if err == nil {
		e.at = m.Time
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
