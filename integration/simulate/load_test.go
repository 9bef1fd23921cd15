package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// load lets clients work until a time, and some parts fail meanwhile.
func (s *simulation) load(until time.Time, faults bool) {
	for time.Now().Before(until) {
		for _, of := range []*simulation{s, s.neighbour} {
			of.replaceDead()
			of.mendConsumers(false)
		}
		time.Sleep(time.Duration(s.rnd.IntN(20_000)) * time.Millisecond)
		if !faults || s.rnd.IntN(10) < 8 {
			for range 1 + s.rnd.IntN(5) {
				s.submit()
				if s.rnd.IntN(6) == 0 {
					s.neighbour.submit()
				}
			}
			if s.rnd.IntN(300) == 0 {
				s.flood()
			}
		} else {
			s.breakSomething()
		}
	}
}

// submit lets a client do one of the things that clients do.
func (s *simulation) submit() {
	s.calls++
	p := &promise{
		session: fmt.Sprintf("s%d", s.rnd.IntN(4)), id: fmt.Sprintf("c%d", s.calls), ms: s.rnd.IntN(50),
		tool: []string{"once", "keyed", "idempotent", "async"}[s.rnd.IntN(4)], chat: fmt.Sprintf("chat%d", s.rnd.IntN(3)),
		priority: []string{"", "low", "normal", "high"}[s.rnd.IntN(4)],
	}
	if s.rnd.IntN(3) == 0 {
		p.ms = s.rnd.IntN(45_000)
	}
	if s.rnd.IntN(40) == 0 { // longer than several leases
		p.ms += s.rnd.IntN(300_000)
	}
	if s.rnd.IntN(8) == 0 {
		p.size = 60_000 + s.rnd.IntN(300_000)
	}
	if s.rnd.IntN(2) == 0 {
		p.user = "for the user: " + s.ledger.tenant + p.id
	}
	switch s.rnd.IntN(11) {
	case 0:
		switch s.message(p.chat); s.rnd.IntN(6) {
		case 0:
			s.makeJob()
		case 1:
			s.makeReminder()
		}
	case 1:
		s.submitRaw(p)
	case 2:
		if s.ask(); s.rnd.IntN(3) == 0 {
			s.plant()
		}
	case 3, 4:
		p.deadline = time.Now().Add(time.Duration(s.rnd.IntN(60)-5) * time.Second)
		if s.rnd.IntN(3) == 0 {
			p.tool = "asked"
		}
		s.enqueue(p)
	case 5:
		p.cancelled = true
		s.enqueue(p)
	default:
		s.enqueue(p)
	}
}

func (s *simulation) submitRaw(p *promise) {
	p.raw = true
	text := output(s.ledger.tenant+p.id, p.size)
	raw := tools.RawEvent{Call: p.call(s.t), ForLLM: &text, UserContent: tools.UserContent{ForUser: p.user}, Silent: p.user == ""}
	raw.Args = nil
	s.insist(func(ctx context.Context) error {
		_, err := rpc.SubmitRaw(ctx, s.client, bus.DefaultQueue, raw)
		if err == nil {
			s.ledger.accept(p)
		}
		return err
	})
}

// enqueue lets a client submit a call, and cancel it later if that is what it does.
func (s *simulation) enqueue(p *promise) {
	call, pause := p.call(s.t), time.Duration(s.rnd.IntN(20_000))*time.Millisecond
	s.insist(func(ctx context.Context) error {
		accepted, err := rpc.Enqueue(ctx, s.client, bus.DefaultQueue, call)
		if err != nil {
			return err
		}
		p.sequence = accepted.Sequence
		s.ledger.accept(p)
		if p.cancelled {
			time.Sleep(pause)
			_, _ = task.Cancel(ctx, s.client, p.session, p.id, "the client") // the call may have ended, or the server may be away
		}
		return nil
	})
}

// flood lets one session submit more calls than all workers run in twice the time in which the calls of
// others begin. Behind them, it submits one with a high priority, and another session a usual one.
func (s *simulation) flood() {
	for range 100 {
		s.calls++
		s.enqueue(&promise{
			session: "flood", id: fmt.Sprintf("c%d", s.calls), tool: "idempotent", ms: 1000 + s.rnd.IntN(2000), flood: true, cancelled: s.rnd.IntN(10) == 0,
		})
	}
	time.Sleep(time.Second)
	for session, priority := range map[string]string{"flood": "high", "beside": ""} {
		s.calls++
		s.enqueue(&promise{session: session, id: fmt.Sprintf("c%d", s.calls), tool: "idempotent", priority: priority})
	}
}

// poison lets a client submit a call that kills each process that runs it, until the call is a dead letter.
func (s *simulation) poison() {
	s.calls++
	id := fmt.Sprintf("c%d", s.calls)
	s.enqueue(&promise{session: "poison", id: id, tool: "poison", user: "for the user: " + id, chat: "chat0"})
}

// message sends the next message with a number to a chat, once the one before it is stored.
func (s *simulation) message(chat string) {
	s.chatSizes[chat]++
	n := s.chatSizes[chat]
	s.insist(func(ctx context.Context) error {
		s.ledger.mu.Lock()
		ready := n == 1 || s.ledger.told[chat][n-1]
		s.ledger.mu.Unlock()
		if !ready {
			return errDown
		}
		_, err := s.messages.Send(ctx, channel.Notification{
			ID: fmt.Sprintf("%s-%d", chat, n), Channel: "chat", ChatID: chat, Text: fmt.Sprintf("%smessage %d", s.ledger.tenant, n),
		})
		if err == nil {
			s.ledger.tell(chat, n)
		}
		return err
	})
}

// makeJob lets a client make a job, change it, disable and enable it, and remove it. The job runs meanwhile, but not while
// it is disabled, and never afterwards.
func (s *simulation) makeJob() {
	name := fmt.Sprintf("made-%d", s.calls)
	in, err := json.Marshal(args{MS: 20, Job: name})
	if err != nil {
		s.t.Fatal(err)
	}
	job := cron.Job{Name: name, Session: "made", Every: jobInterval, Tool: "idempotent", Args: in}
	pauses := []time.Duration{time.Duration(s.rnd.IntN(90)) * time.Second, time.Duration(s.rnd.IntN(90)) * time.Second}
	s.clients.Go(func() {
		for _, pause := range pauses {
			s.retry(func(ctx context.Context) error { _, err := cron.New(s.client).Put(ctx, job, true); return err })
			job.Every += 10 * time.Second
			time.Sleep(pause)
		}
		disable := func(disabled bool) {
			s.retry(func(ctx context.Context) error {
				_, err := cron.New(s.client).Update(ctx, cron.Caller{Operator: true}, name, func(j *cron.Job) error { j.Disabled = disabled; return nil })
				return err
			})
		}
		disable(true)
		from := time.Now()
		time.Sleep(pauses[0])
		s.ledger.stopJob(name, span{from, time.Now()})
		disable(false)
		time.Sleep(pauses[1])
		s.retry(func(ctx context.Context) error {
			if err := cron.New(s.client).Remove(ctx, cron.Caller{Operator: true}, name); !errors.Is(err, cron.ErrNotFound) { // an earlier try may have removed it
				return err
			}
			return nil
		})
		s.ledger.stopJob(name, span{time.Now(), s.began.AddDate(1, 0, 0)})
	})
}

// makeReminder lets a client make a job that runs once, and sometimes give it another time or remove it. A change that is
// confirmed before the job is due counts.
func (s *simulation) makeReminder() {
	name, at := fmt.Sprintf("reminder-%d", s.calls), time.Now().Add(time.Duration(30+s.rnd.IntN(120))*time.Second).Truncate(time.Second)
	in, err := json.Marshal(args{MS: 20, Job: name})
	if err != nil {
		s.t.Fatal(err)
	}
	job := cron.Job{Name: name, Session: "made", At: at, Tool: []string{"once", "keyed"}[s.rnd.IntN(2)], Args: in}
	change, pause := s.rnd.IntN(3), time.Duration(s.rnd.IntN(40))*time.Second
	confirmed := func(request func(context.Context) error) bool {
		ok := false
		s.retry(func(ctx context.Context) error {
			err := request(ctx)
			ok = err == nil && time.Now().Before(at.Add(-time.Second))
			if time.Now().Before(at) {
				return err
			}
			return nil // too late to change anything
		})
		return ok
	}
	by := cron.Caller{Operator: true}
	s.clients.Go(func() {
		if !confirmed(func(ctx context.Context) error {
			if _, err := cron.New(s.client).Add(ctx, by, job); !errors.Is(err, cron.ErrExists) { // an earlier try may have stored it
				return err
			}
			return nil
		}) {
			return
		}
		time.Sleep(pause)
		switch change {
		case 0:
			later := at.Add(time.Minute)
			if confirmed(func(ctx context.Context) error {
				_, err := cron.New(s.client).Update(ctx, by, name, func(j *cron.Job) error { j.At = later; return nil })
				return err
			}) {
				s.ledger.remind(name, later)
			}
		case 1:
			if confirmed(func(ctx context.Context) error {
				if err := cron.New(s.client).Remove(ctx, by, name); !errors.Is(err, cron.ErrNotFound) {
					return err
				}
				return nil
			}) {
				s.ledger.remind(name, time.Time{})
			}
		default:
			s.ledger.remind(name, at)
		}
	})
}

// jobs are the schedules, with the tool of each, how long it runs, and its interval. job-4 runs for longer than its
// interval. A tick whose acknowledgement is lost comes again only if the interval is longer than the lease, since only
// the newest tick of a job counts.
var jobs = map[string]struct {
	tool  string
	ms    int
	every time.Duration
}{
	"job-1": {"once", 20, jobInterval}, "job-2": {"once", 20, 2 * jobInterval},
	"job-3": {"idempotent", 20, 2 * jobInterval}, "job-4": {"keyed", 45_000, jobInterval},
}

func (s *simulation) addJobs() {
	for name, job := range jobs {
		in, err := json.Marshal(args{MS: job.ms, Job: name})
		if err == nil {
			_, err = cron.New(s.client).Add(s.t.Context(), cron.Caller{Operator: true}, cron.Job{Name: name, Session: "jobs", Every: job.every, Tool: job.tool, Args: in})
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// insist lets a client repeat a request until it is answered.
func (s *simulation) insist(request func(context.Context) error) {
	s.clients.Go(func() { s.retry(request) })
}

func (s *simulation) retry(request func(context.Context) error) {
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Second) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		err = request(ctx)
		cancel()
		if err == nil {
			return
		}
	}
	s.t.Errorf("%s a client got no answer within %v: %v", clock(), patience, err)
}
