//go:build unix

package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/session"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// suspendTimeout is less than the time after which a run counts as abandoned (5 min).
const suspendTimeout = time.Minute

// A worker is suspended while the model answers, and another worker takes its agent over.
// When the first one goes on, its loop ends, also if the other worker has died or is
// suspended, and the call ends soon, with one result.
func TestSuspendedAgent(t *testing.T) {
	for name, then := range map[string]func(t *testing.T, s *suspendedRun){
		"the other one ends the run": func(t *testing.T, s *suspendedRun) {
			s.first.signal(t, syscall.SIGCONT)
			s.answer(t, s.first)
			s.answer(t, s.second)
		},
		"the other one answers first": func(t *testing.T, s *suspendedRun) {
			s.answer(t, s.second)
			s.awaitEnd(t)
			s.first.signal(t, syscall.SIGCONT)
			s.answer(t, s.first)
		},
		"the other one dies": func(t *testing.T, s *suspendedRun) {
			s.first.signal(t, syscall.SIGCONT)
			s.answer(t, s.first)
			s.second.signal(t, syscall.SIGKILL)
			s.answerAll(t)
		},
		"the other one died before": func(t *testing.T, s *suspendedRun) {
			s.second.signal(t, syscall.SIGKILL)
			s.first.signal(t, syscall.SIGCONT)
			s.answerAll(t)
		},
		"the other one is suspended": func(t *testing.T, s *suspendedRun) {
			s.first.signal(t, syscall.SIGCONT)
			s.answer(t, s.first)
			s.second.signal(t, syscall.SIGSTOP)
			s.answerAll(t)
			s.awaitEnd(t)
			s.second.signal(t, syscall.SIGCONT)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSuspendedRun(t)
			then(t, s)
			s.awaitEnd(t)
			s.check(t)
		})
	}
}

// suspendedRun is an agent call of which the first of two workers was suspended, so that the
// second one asks the model too.
type suspendedRun struct {
	bus           *bus.Bus
	model         *heldModel
	first, second *agentWorker
	ended         chan error // of the call
}

func newSuspendedRun(t *testing.T) *suspendedRun {
	server, err := embedded.Start(embedded.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", NoSync: true, Log: bustest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	s := &suspendedRun{bus: bustest.Connect(t, server, bus.Config{Lease: agentLease, Log: bustest.Log(t)}), ended: make(chan error, 1)}
	s.model = newHeldModel(t)
	start := func() *agentWorker {
		return startAgentWorker(t, agentChildEnv+"="+server.URL(), agentModelEnv+"="+s.model.URL, agentRunsEnv+"="+filepath.Join(t.TempDir(), "runs"), agentDieEnv+"=0", agentContextEnv+"=1000000")
	}
	s.first = start()
	go func() {
		event, err := rpc.Submit(t.Context(), s.bus, bus.AgentQueue, tools.Call{ID: "r", Session: "s", Tool: agent.AgentTool, Args: json.RawMessage(`{"prompt":"Hello?"}`)})
		if err == nil && (event.IsError || event.ForLLM != heldReply) {
			err = fmt.Errorf("the result is %q", event.ForLLM)
		}
		s.ended <- err
	}()
	s.first.asked = s.model.next(t)
	s.first.signal(t, syscall.SIGSTOP)
	s.second = start()
	s.second.asked = s.model.next(t)
	return s
}

// answer answers the request of a worker.
func (s *suspendedRun) answer(t *testing.T, w *agentWorker) {
	t.Helper()
	close(w.asked)
}

// answerAll answers all requests of now on, until the test ends.
func (s *suspendedRun) answerAll(t *testing.T) {
	close(s.model.open)
}

// awaitEnd waits for the result of the call.
func (s *suspendedRun) awaitEnd(t *testing.T) {
	t.Helper()
	select {
	case err := <-s.ended:
		if err != nil {
			t.Fatal(err)
		}
		s.ended <- nil
	case <-time.After(suspendTimeout):
		t.Fatalf("the call has no result after %s", suspendTimeout)
	}
}

// check fails the test unless the conversation has one turn and one end, and the call is
// settled: no worker keeps it.
func (s *suspendedRun) check(t *testing.T) {
	t.Helper()
	bustest.WaitUntil(t, "the removal of the call", func() bool {
		stream, err := s.bus.Stream(t.Context(), bus.Calls)
		if err != nil {
			return false
		}
		info, err := stream.Info(t.Context())
		return err == nil && info.State.Msgs == 0
	})
	bodies, _, err := session.New(s.bus).Read(t.Context(), "s", 0)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[agent.Kind]int{}
	for _, body := range bodies {
		e, err := agent.DecodeEntry(body)
		if err != nil {
			t.Fatal(err)
		}
		kinds[e.Kind]++
	}
	if kinds[agent.KindUser] != 1 || kinds[agent.KindAssistant] != 1 || kinds[agent.KindEnd] != 1 {
		t.Errorf("the conversation has these entries: %v", kinds)
	}
}

const heldReply = "I am here."

// heldModel serves the Messages API. It holds each answer back.
type heldModel struct {
	*httptest.Server
	asked chan chan struct{} // a request; closed to answer it
	open  chan struct{}      // closed to answer all
}

func newHeldModel(t *testing.T) *heldModel {
	m := &heldModel{asked: make(chan chan struct{}, 1000), open: make(chan struct{})}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		release := make(chan struct{})
		m.asked <- release
		select {
		case <-release:
		case <-m.open:
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"type":"message","role":"assistant","content":[{"type":"text","text":"`+heldReply+`"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`)
	}))
	t.Cleanup(m.Close)
	return m
}

// next waits for the next request.
func (m *heldModel) next(t *testing.T) chan struct{} {
	t.Helper()
	select {
	case release := <-m.asked:
		return release
	case <-time.After(suspendTimeout):
		t.Fatal("no worker asks the model")
		return nil
	}
}

// agentWorker is a worker process.
type agentWorker struct {
	cmd   *exec.Cmd
	asked chan struct{} // its first request to the model
}

func startAgentWorker(t *testing.T, env ...string) *agentWorker {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), exe)
	cmd.Env, cmd.Stderr = append(os.Environ(), env...), os.Stderr
	stdin, err := cmd.StdinPipe() // closed when this process ends
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = stdin.Close()
	})
	return &agentWorker{cmd: cmd}
}

func (w *agentWorker) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := w.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}
