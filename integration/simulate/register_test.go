package simulate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/session"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/state/kv"
	"github.com/stevedore-bus/stevedore/tools"
)

// register is a fact that several processes write at once: a key of the state bucket, the claim of a call, or the last
// entry of a conversation. Its history must be linearizable: each operation takes effect at one moment between its
// begin and its end, and one without an answer at any moment after its begin, or never.
type register struct {
	key     string
	kind    int
	clock   atomic.Int64 // orders begins and ends; many of them have the same virtual time
	mu      sync.Mutex
	history []porcupine.Operation
}

// Kinds of registers.
const (
	stateRegister = iota
	claimRegister
	sessionRegister
	registerKinds
)

// operation is what a process asks of a register.
type operation struct {
	kind   int
	reads  bool
	expect string // of a conversation: its last entry as the writer knows it
	value  string // what is written
}

// answer is what it is told.
type answer struct {
	none  bool // no answer: the operation may take effect at any time
	won   bool // the value was written
	value string
}

// register as one process alone would see it.
var registerModel = porcupine.Model{
	Init: func() any { return "" },
	Step: func(before, in, out any) (bool, any) {
		now, op, got := before.(string), in.(operation), out.(answer)
		writes := op.kind == stateRegister || now == op.expect
		switch {
		case op.reads:
			return got.value == now, now
		case got.none && writes:
			return true, op.value
		case got.none:
			return true, now
		case got.won:
			return writes, op.value
		}
		return !writes && (op.kind == sessionRegister || got.value == now && now != op.value), now
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v: %+v", in, out) },
}

// contend lets three clients write and read a new register over the links of processes.
func (s *simulation) contend() {
	r := &register{key: fmt.Sprintf("r%d", len(s.registers)), kind: s.rnd.IntN(registerKinds)}
	s.registers = append(s.registers, r)
	for client := range 3 {
		b := s.running[s.rnd.IntN(len(s.running))].bus
		var pauses []time.Duration
		for range 4 {
			pauses = append(pauses, time.Duration(s.rnd.IntN(3))*time.Duration(s.rnd.IntN(1_000))*time.Millisecond)
		}
		reads := s.rnd.IntN(2)
		s.clients.Go(func() {
			known, sequence := "", uint64(0)
			for n, pause := range pauses {
				time.Sleep(pause)
				op := operation{kind: r.kind, reads: n%2 == reads, expect: known, value: fmt.Sprintf("%d-%d", client, n)}
				if r.kind == claimRegister {
					op.expect = ""
				}
				r.do(b, client, op, &sequence, &known)
			}
		})
	}
}

// do does an operation and adds it to the history. A conversation is written behind the entry that its client knows.
func (r *register) do(b *bus.Bus, client int, op operation, sequence *uint64, known *string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	begin := r.clock.Add(1)
	var got answer
	var err error
	switch key := (tools.CallKey{Session: "registers", ID: r.key}); {
	case r.kind == sessionRegister && op.reads:
		entries, last, failed := session.New(b).Read(ctx, r.key, 0)
		if err = failed; err == nil && len(entries) > 0 {
			got.value = string(entries[len(entries)-1])
			*sequence, *known = last, got.value
		}
	case r.kind == sessionRegister:
		var written uint64
		if written, err = session.New(b).Append(ctx, r.key, *sequence, []byte(op.value)); err == nil {
			got.won, *sequence, *known = true, written, op.value
		} else if errors.Is(err, bus.ErrConflict) {
			err = nil
		}
	case r.kind == claimRegister && op.reads:
		var claim task.Claim
		claim, _, err = task.ReadClaim(ctx, b, key.Session, key.ID)
		got.value = claim.Worker
	case r.kind == claimRegister:
		var claim task.Claim
		claim, got.won, err = (&task.Locator{Bus: b, Results: task.NewResults(b, zerolog.Nop())}).Claim(ctx, key, task.Claim{Worker: op.value, At: time.Now()})
		got.value = claim.Worker
	case op.reads:
		fact, failed := r.state(b).Get(ctx, r.key)
		got.value, err = fact.Value, failed
	default:
		err = r.state(b).Set(ctx, map[string]string{r.key: op.value})
		got.won = err == nil
	}
	end := r.clock.Add(1)
	if err != nil {
		if got, end = (answer{none: true}), math.MaxInt64; op.reads {
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = append(r.history, porcupine.Operation{ClientId: client, Input: op, Call: begin, Output: got, Return: end})
}

func (r *register) state(b *bus.Bus) *kv.Store {
	return kv.New(b.API(), func(ctx context.Context) (jetstream.KeyValue, error) { return b.Bucket(ctx, bus.StateBucket) })
}

// judgeRegisters reads each register once more and checks its history.
func (s *simulation) judgeRegisters(fail func(string, ...any)) (checked int) {
	for _, r := range s.registers {
		checked++
		sequence, known := uint64(0), ""
		r.do(s.client, 3, operation{kind: r.kind, reads: true}, &sequence, &known)
		if !porcupine.CheckOperations(registerModel, r.history) {
			fail("%s: no order of these operations has these answers:", r.key)
			for _, op := range r.history {
				fail("  client %d from %d to %d: %s", op.ClientId, op.Call, op.Return, registerModel.DescribeOperation(op.Input, op.Output))
			}
		}
	}
	return checked
}
