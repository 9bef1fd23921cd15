package simulate

import (
	"os"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/embedded"
)

// marks are in what a process sends: one of each kind of message (docs/protocol.md), a completion in a conversation, and acknowledgements, also of ticks.
var marks = []string{".claim.", ".result.", ".report.", ".completion.", ".session.", `"kind":"notice"`, ".notify.", "PUB $KV.", "PUB $JS.ACK.", "_TICKS.ticks."}

// breakSomething lets one thing fail.
func (s *simulation) breakSomething() {
	s.faults++
	of := s
	if s.rnd.IntN(6) == 0 {
		of = s.neighbour
	}
	i := s.rnd.IntN(len(of.running))
	p := of.running[i]
	outage := time.Duration(s.rnd.IntN(100)) * time.Second
	switch s.rnd.IntN(12) {
	case 0, 1:
		of.meddle(outage)
		return
	case 2:
		of.editStream(outage)
		return
	}
	writes, mark := s.rnd.IntN(30), "" // between two steps of what the process does
	if s.rnd.IntN(3) > 0 {
		writes, mark = 1+writes/10, marks[s.rnd.IntN(len(marks))]
	}
	switch fault := s.rnd.IntN(12); fault {
	case 0, 1, 2, 3:
		state := []linkState{down, silent, deaf, mute}[fault]
		of.note("link of process %d: state %d after %d writes %s, for %v", i, state, writes, mark, outage)
		p.link.setAfter(writes, mark, state)
		s.healing.Go(func() { time.Sleep(outage); p.link.set(whole) })
		s.contend()
	case 4, 5:
		of.note("process %d dies after %d writes %s", i, writes, mark)
		p.link.setAfter(writes, mark, finished)
		of.replace(i, outage)
	case 6:
		s.note("server restarts after %v", outage/2)
		s.unplug().Close()
		time.Sleep(outage / 2)
		s.startServer()
	case 7:
		s.fillStream([]string{bus.Calls, bus.Results, bus.Outbox, bus.Sessions}[s.rnd.IntN(4)], outage)
	case 8:
		of.stopProcess(i)
	case 9:
		s.note("store fails after %d writes, for %v", writes/8, 4*outage)
		s.disk.fail(writes/8, storeFault(s.rnd.IntN(3)))
		s.healing.Go(func() { time.Sleep(4 * outage); s.disk.heal() })
	default:
		s.note("server is killed, and starts after %v", outage/2)
		s.killServer()
		time.Sleep(outage / 2)
		s.startServer()
	}
}

// replace starts another process beside one that dies, or ends within a time.
func (s *simulation) replace(i int, within time.Duration) {
	p := s.running[i]
	s.healing.Go(func() { time.Sleep(within); p.link.set(finished); p.stop(); p.bus.Close() })
	s.running[i] = startProcess(s.t, s)
}

// replaceDead starts another process for each one that a call has killed.
func (s *simulation) replaceDead() {
	for i, p := range s.running {
		if p.link.died() {
			s.note("process %d has died", i)
			s.replace(i, 0)
		}
	}
}

// fillStream lets a stream accept no more than it has. Half of the time, a process stops meanwhile, with what it could
// not store.
func (s *simulation) fillStream(name string, outage time.Duration) {
	s.note("stream %s is full for %v", name, outage)
	stream := s.client.StreamName(name)
	s.healing.Go(func() {
		s.edit(stream, func(info *jetstream.StreamInfo) {
			s.sizes.LoadOrStore(name, info.Config.MaxBytes) // another outage may have made it full before
			info.Config.MaxBytes = max(int64(info.State.Bytes), 1)
		})
		time.Sleep(outage)
		s.edit(stream, func(info *jetstream.StreamInfo) { size, _ := s.sizes.Load(name); info.Config.MaxBytes = size.(int64) })
	})
	if s.rnd.IntN(2) == 0 {
		time.Sleep(outage / 2)
		s.stopProcess(s.rnd.IntN(len(s.running)))
	}
}

// stopProcess stops a process as a supervisor does, and starts another one.
func (s *simulation) stopProcess(i int) {
	s.note("process %d stops", i)
	p := s.running[i]
	p.stop()
	p.bus.Close()
	s.running[i] = startProcess(s.t, s)
}

// unplug disconnects everybody from the server. The server stops only then: it sleeps under a lock
// if it must tell clients of its end, and virtual time stands still if another request wants the lock.
func (s *simulation) unplug() *embedded.Server {
	srv := s.server.Swap(nil)
	s.linking.Lock()
	for _, l := range s.links {
		l.disconnect()
	}
	s.linking.Unlock()
	time.Sleep(time.Millisecond)
	synctest.Wait()
	return srv
}

// killServer goes on with the files as they are now or, if the power fails, with what was synced of them. What the server
// does afterwards is lost.
func (s *simulation) killServer() {
	srv := s.unplug()
	old := s.dir
	if s.disks != nil {
		after := newPowered(s.t, s.disks.image)
		srv.Close()
		s.disks.end()
		s.disks, s.dir = after, after.dir
		return
	}
	s.dir = s.t.TempDir()
	if err := os.CopyFS(s.dir, os.DirFS(old)); err != nil {
		s.t.Fatal(err)
	}
	srv.Close()
	if err := os.RemoveAll(old); err != nil {
		s.t.Fatal(err)
	}
}
