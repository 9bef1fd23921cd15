package limited

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/fair"
)

const (
	// slice is how much processor time each work gets before it needs a slow slot.
	slice = 200 * time.Millisecond
	// A session has so many slots of each kind at most.
	sessionQuick = 2
	sessionSlow  = 1
	// patience is how long work waits for a slot.
	patience = 30 * time.Second
	// tick is the shortest time between two looks at the clock of a work.
	tick = 5 * time.Millisecond
)

// Pool shares the processor among the sessions whose work may take long. Each work begins in one of
// many quick slots. After its first slice it goes on in a slow slot, with a lower priority. If no slow slot is free, it ends, and begins again when it gets one. So short work never
// waits for the end of long work. A session has one slow slot at most.
//
// A Pool is safe for concurrent use.
type Pool struct {
	// command is a program with arguments; those of a kind end with its name.
	command     []string
	quick, slow *fair.Share

	mu       sync.Mutex
	sessions map[string]*session // with work
}

type session struct {
	quick, slow *fair.Share
	works       int
}

// NewPool returns the pool of a process. The command is a program with arguments that runs work in
// a process of its own: for each kind, the main of the command with the name of the kind behind it
// calls the function of the kind, such as jq.Serve. Without a command, the work runs in this
// process, where a single step of a hostile query can take gigabytes.
func NewPool(command ...string) *Pool {
	quick, slow := slots()
	return newPool(command, fair.NewPool(quick).Join(0), fair.NewPool(slow).Join(0))
}

func newPool(command []string, quick, slow *fair.Share) *Pool {
	return &Pool{command: command, quick: quick, slow: slow, sessions: map[string]*session{}}
}

// slots returns how many works of all sessions run at once.
func slots() (quick, slow int) {
	slow = max(runtime.GOMAXPROCS(0), 4)
	return 2 * slow, slow
}

// Tenant returns the part of the pool that a tenant has: half of the slots at most, so that others
// have some.
func (p *Pool) Tenant() *Pool {
	quick, slow := slots()
	return newPool(p.command, p.quick.Join(quick/2), p.slow.Join(slow/2))
}

// Command returns the command line of the process for a kind of work, or nil if there is none.
func (p *Pool) Command(k Kind) []string {
	if len(p.command) == 0 {
		return nil
	}
	return append(p.command[:len(p.command):len(p.command)], k.Name)
}

// errStopped ends the context of work that begins again when it gets a slow slot.
var errStopped = errors.New("stopped after its first slice")

// Do runs work of a session when it is its turn. The work may use so much processor time in this
// process; another process limits its own with Within. At the limit its context ends, and TimeUp is
// true. Do may call work a second time after the first one returned an error because its context
// ended.
func (p *Pool) Do(ctx context.Context, session string, cpu time.Duration, work func(context.Context) error) error {
	s := p.enter(session)
	defer p.leave(session, s)
	if !s.quick.Take(ctx, patience) {
		return waited(ctx)
	}
	t := &turn{session: s, slot: s.quick, cpu: cpu}
	err := t.run(ctx, work)
	if !t.stopped {
		return err
	}
	if !s.slow.Take(ctx, patience) {
		return waited(ctx)
	}
	return (&turn{session: s, slot: s.slow, cpu: cpu}).run(ctx, work)
}

func waited(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return tools.Errorf(tools.CodeTimeout, "other slow reads are running, of which a session has one at a time, and this one waited %s for them; "+
		"wait for their answers and ask again, or ask for less", patience)
}

func (p *Pool) enter(name string) *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sessions[name]
	if s == nil {
		s = &session{quick: p.quick.Join(sessionQuick), slow: p.slow.Join(sessionSlow)}
		p.sessions[name] = s
	}
	s.works++
	return s
}

func (p *Pool) leave(name string, s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.works--; s.works == 0 {
		delete(p.sessions, name)
	}
}

// turn is one run of a work.
type turn struct {
	session *session
	cpu     time.Duration
	stopped bool // its first slice ended, and no slow slot was free

	mu    sync.Mutex
	slot  *fair.Share
	used  func() time.Duration // of the processor, by this process or by another one
	pid   int                  // of the other process that does the work now, or 0
	timer *time.Timer
	end   context.CancelCauseFunc
	ended bool
}

type turnKey struct{}

func (t *turn) run(ctx context.Context, work func(context.Context) error) (err error) {
	ctx, t.end = context.WithCancelCause(context.WithValue(ctx, turnKey{}, t))
	t.used = here()
	t.timer = time.AfterFunc(time.Hour, t.check)
	t.timer.Reset(min(slice, t.cpu))
	wall := maxWall(t.cpu)
	late := time.AfterFunc(wall, func() { t.end(Reached{Wall: wall}) })
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		late.Stop()
		t.timer.Stop()
		t.ended = true
		t.stopped = err != nil && context.Cause(ctx) == errStopped
		t.slot.Release()
		t.end(nil)
	}()
	return work(ctx)
}

// here returns a function that says how much processor time this process has used since. Other work
// of this process counts too, but not that of the rest of the machine.
func here() func() time.Duration {
	began, clock := time.Now(), processTime(0)
	before := clock()
	return func() time.Duration { return min(clock()-before, time.Since(began)) }
}

// check ends the work at its limit, and its first slice.
func (t *turn) check() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	used := t.used()
	left := t.cpu - used
	if t.pid != 0 { // it limits its time itself
		left = slice
	}
	if left <= 0 {
		t.end(Reached{CPU: t.cpu})
		return
	}
	if t.slot == t.session.quick {
		switch {
		case used < slice:
			left = min(left, slice-used)
		case t.session.slow.TryTake():
			t.slot.Release()
			t.slot = t.session.slow
			t.lowerLocked()
		default:
			t.end(errStopped)
			return
		}
	}
	t.timer.Reset(max(left, tick))
}

// running notes the process that does the work of a context. 0 means that it has ended, and that this
// process goes on with the work, in the time of the limit.
func running(ctx context.Context, pid int) {
	t, ok := ctx.Value(turnKey{}).(*turn)
	if !ok {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pid = pid; pid == 0 {
		t.used = here()
		return
	}
	t.used = processTime(pid)
	t.lowerLocked()
}

// lowerLocked lowers the priority of the process of a session that has slow work.
func (t *turn) lowerLocked() {
	if t.pid != 0 && t.session.slow.Held() > 0 {
		lower(t.pid)
	}
}

// limitOf returns the processor time that the work of a context may take.
func limitOf(ctx context.Context) time.Duration {
	if t, ok := ctx.Value(turnKey{}).(*turn); ok {
		return t.cpu
	}
	return math.MaxInt64
}
