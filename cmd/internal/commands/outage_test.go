package commands

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/tools"
)

// link is a connection to a server that a test can cut.
type link struct {
	*embedded.Server

	mu    sync.Mutex
	isCut bool
	conns []net.Conn
}

func (l *link) InProcessConn() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isCut {
		return nil, errors.New("the link is cut")
	}
	conn, err := l.Server.InProcessConn()
	if err == nil {
		l.conns = append(l.conns, conn)
	}
	return conn, err
}

func (l *link) cut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = cut
	for _, conn := range l.conns {
		conn.Close()
	}
	l.conns = nil
}

// startLink starts a server in a bubble. It returns the link to it, a direct connection, and
// the settings of a connection over the link.
func startLink(t *testing.T, dir string) (*link, *bus.Bus, cli.Connection) {
	t.Helper()
	s, err := embedded.Start(embedded.Config{Dir: dir, NoSync: true, Log: bustest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	l := &link{Server: s}
	b := bustest.Connect(t, s, bus.Config{})
	var far cli.Connection
	far.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError)) // --timeout is not given
	far.Data, far.Config = "", s.ClientConfig(bus.Config{Prefix: bus.DefaultPrefix, Timeout: 5 * time.Second})
	far.Server, far.InProcess = "nats://"+far.User+":"+far.Password+"@bus.example:4222", l
	return l, b, far
}

// checkOutage fails the test if err is not the error of a command after a long outage.
func checkOutage(t *testing.T, err error, far cli.Connection, want ...string) {
	t.Helper()
	_, coded := errors.AsType[*cli.Error](err)
	if coded || !errors.Is(err, bus.ErrUnreachable) || strings.Contains(err.Error(), far.Password) {
		t.Fatalf("got %v, want %v", err, bus.ErrUnreachable)
	}
	for _, text := range append(want, "no connection to nats://xxxxx@bus.example:4222 for 30s", "when the bus is back") {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q does not say %q", err, text)
		}
	}
}

// call and agent continue after a short outage, in which the result was published, and end
// with an error after a long one.
func TestCallWhileTheBusIsAway(t *testing.T) {
	logging := cli.Logging{Level: "off", Format: "json"}
	call := func(ctx context.Context, far cli.Connection, out io.Writer) error {
		o := callOptions{Options: client.Options{Connection: far, Logging: logging}, Queue: bus.DefaultQueue, Wait: time.Hour}
		o.call = tools.Call{ID: "c1", Session: "s1", Tool: "slow", Args: []byte(`{}`)}
		return submit(ctx, o, out, io.Discard)
	}
	prompt := func(ctx context.Context, far cli.Connection, out io.Writer) error {
		o := promptOptions{Options: client.Options{Connection: far, Logging: logging}, Wait: time.Hour, waitForWorker: true}
		o.call, o.args.Prompt = tools.Call{ID: "c1", Session: "s1"}, "Hello."
		return o.run(ctx, out, io.Discard)
	}
	for _, test := range []struct {
		name    string
		wait    func(context.Context, cli.Connection, io.Writer) error
		away    time.Duration
		wantErr string // part of the error; empty means none
	}{
		{"restart", call, 20 * time.Second, ""},
		{"lasting", call, 35 * time.Second, "the call was accepted: when the bus is back, submit it again with --id c1"},
		{"restart under an agent", prompt, 20 * time.Second, ""},
		{"lasting under an agent", prompt, 35 * time.Second, "send the same prompt again with --session s1 --id c1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			bustest.Bubble(t, func(t *testing.T) {
				l, b, far := startLink(t, dir)
				defer l.Close()
				var out strings.Builder
				ended := make(chan error, 1)
				go func() { ended <- test.wait(t.Context(), far, &out) }()
				time.Sleep(5 * time.Second)
				l.cut(true)
				event := tools.ResultEvent{ID: "c1", Session: "s1", Outcome: tools.Completed, Result: tools.Result{ForLLM: "there it is"}}
				body, err := bus.Encode(event)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(test.away)
				if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Result("s1", "c1"), Body: body}); err != nil {
					t.Fatal(err)
				}
				l.cut(false)
				err = <-ended
				if test.wantErr != "" {
					checkOutage(t, err, far, test.wantErr)
				} else if err != nil || out.String() != "there it is\n" {
					t.Errorf("got %v and %q, want the result", err, out.String())
				}
			})
		})
	}
}

// tasks watch does the same if the task ends during the outage, and if the workers return
// later than the bus.
func TestWatchWhileTheBusIsAway(t *testing.T) {
	for _, test := range []struct {
		name string
		away time.Duration
		gone bool
	}{
		{"restart", 20 * time.Second, false},
		{"lasting", 35 * time.Second, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			bustest.Bubble(t, func(t *testing.T) {
				l, b, far := startLink(t, dir)
				defer l.Close()
				serve := func() (stop func()) {
					ctx, cancel := context.WithCancel(context.Background())
					done := make(chan error, 1)
					go func() { done <- rpc.NewService(b, nil, rpc.ServiceConfig{}).Run(ctx) }()
					synctest.Wait()
					return func() {
						cancel()
						if err := <-done; err != nil {
							t.Error(err)
						}
					}
				}
				publish := func(subject string, e tools.ResultEvent) {
					e.ID, e.Session, e.Tool = "c1", "s1", "slow"
					body, err := bus.Encode(e)
					if err == nil {
						_, err = b.Publish(t.Context(), bus.Message{Subject: subject, Body: body})
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				stop := serve()
				publish(b.Result("s1", "c1"), tools.ResultEvent{Outcome: tools.Async, StartedAt: time.Now()})

				cmd := newRoot()
				tasks := &client.Options{Connection: far, Logging: cli.Logging{Level: "off", Format: "json"}, Session: "s1"}
				var out strings.Builder
				ended := make(chan error, 1)
				cmd.SetContext(t.Context())
				cmd.SetOut(&out)
				go func() {
					ended <- tasks.With(cmd, func(ctx context.Context, b *bus.Bus) error { return watchTask(ctx, tasks, b, "c1", cmd) })
				}()
				time.Sleep(5 * time.Second)
				stop()
				l.cut(true)
				time.Sleep(test.away)
				publish(b.Completion("s1", "c1"), tools.ResultEvent{Outcome: tools.Completed, StartedAt: time.Now()})
				l.cut(false)
				time.Sleep(15 * time.Second)
				stop = serve()
				defer stop()
				err := <-ended
				if test.gone {
					checkOutage(t, err, far, "watch it again")
				} else if err != nil || !strings.Contains(out.String(), "c1  completed") {
					t.Errorf("got %v and %q, want the end", err, out.String())
				}
			})
		})
	}
}

// call and agent submit the call when JetStream is available again, which takes some seconds after a
// server of a cluster has died. It does not warn about the queue before the call is published.
func TestCallWhileJetStreamIsAway(t *testing.T) {
	for _, test := range []struct {
		name        string
		wait        time.Duration
		away        time.Duration
		gone, agent bool
	}{
		{"election", time.Hour, 20 * time.Second, false, false},
		{"lasting", time.Hour, 50 * time.Second, true, false},
		{"longer than the wait", 10 * time.Second, 50 * time.Second, true, false},
		{"longer than the wait of an agent", 10 * time.Second, 50 * time.Second, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			bustest.Bubble(t, func(t *testing.T) {
				l, b, far := startLink(t, dir)
				defer l.Close()
				var away atomic.Bool
				away.Store(true)
				if _, err := b.Conn().Subscribe("away.>", func(m *nats.Msg) {
					if away.Load() && !strings.Contains(m.Subject, ".CONSUMER.INFO.") {
						return // a server answers for the consumers that it leads
					}
					answer, err := b.Conn().RequestMsg(&nats.Msg{Subject: "$JS.API." + strings.TrimPrefix(m.Subject, "away."), Header: m.Header, Data: m.Data}, time.Minute)
					if err == nil {
						err = m.RespondMsg(&nats.Msg{Header: answer.Header, Data: answer.Data})
					}
					if err != nil {
						t.Error(err)
					}
				}); err != nil {
					t.Fatal(err)
				}
				if err := b.Conn().Flush(); err != nil {
					t.Fatal(err)
				}
				far.APIPrefix = "away"
				if test.gone { // the publish fails too
					if err := b.JetStream().DeleteStream(t.Context(), b.StreamName(bus.Calls)); err != nil {
						t.Fatal(err)
					}
				}
				o := callOptions{Options: client.Options{Connection: far, Logging: cli.Logging{Level: "off", Format: "json"}}, Queue: bus.DefaultQueue, Wait: test.wait}
				o.call = tools.Call{ID: "c1", Session: "s1", Tool: "slow", Args: []byte(`{}`)}
				var stdout, stderr strings.Builder
				ended := make(chan error, 1)
				go func() {
					if prompt := (promptOptions{Options: o.Options, Wait: o.Wait, call: tools.Call{ID: "c1", Session: "s1"}}); test.agent {
						ended <- prompt.run(t.Context(), &stdout, &stderr)
					} else {
						ended <- submit(t.Context(), o, &stdout, &stderr)
					}
				}()
				time.Sleep(test.away)
				if test.gone {
					err := <-ended
					coded, ok := errors.AsType[*cli.Error](err)
					if !errors.Is(err, bus.ErrUnreachable) && !(ok && coded.Code == cli.ExitUnreachable) {
						t.Fatalf("got %v, want %v", err, bus.ErrUnreachable)
					}
					for _, text := range []string{"submit call", "again with", "--id c1"} {
						if !strings.Contains(err.Error(), text) {
							t.Errorf("%q does not say %q", err, text)
						}
					}
					if stderr.Len() > 0 {
						t.Errorf("warning %q for a call that was not published", &stderr)
					}
					return
				}
				away.Store(false)
				for there := false; !there; time.Sleep(time.Second) {
					var err error
					if _, there, err = bustest.Message(b.Last(t.Context(), bus.Calls, b.Call(bus.DefaultQueue, "slow", "s1", "c1"))); err != nil {
						t.Fatal(err)
					}
					select {
					case err := <-ended:
						t.Fatalf("it ended with %v", err)
					default:
					}
				}
				body, err := bus.Encode(tools.ResultEvent{ID: "c1", Session: "s1", Outcome: tools.Completed, Result: tools.Result{ForLLM: "there it is"}})
				if err == nil {
					_, err = b.Publish(t.Context(), bus.Message{Subject: b.Result("s1", "c1"), Body: body})
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := <-ended; err != nil || stdout.String() != "there it is\n" {
					t.Errorf("got %v and %q, want the result", err, &stdout)
				}
			})
		})
	}
}

// A command that JetStream does not answer says that the bus is unreachable and what to do, also one that asks a worker first.
func TestJetStreamDoesNotAnswer(t *testing.T) {
	dir := t.TempDir()
	bustest.Bubble(t, func(t *testing.T) {
		l, b, far := startLink(t, dir)
		defer l.Close()
		bustest.Subscribe(t, b, "away.>") // and no answer
		far.APIPrefix = "away"
		o := &client.Options{Connection: far, Logging: cli.Logging{Level: "off", Format: "json"}}
		for _, cmd := range []*cobra.Command{
			client.RequestCommand(o, "cancel ID", "", rpc.CancelTask, func(args []string) (rpc.TaskRequest, error) { return rpc.TaskRequest{ID: args[0]}, nil }),
			o.Command("ls", "", func(ctx context.Context, b *bus.Bus, _ *cobra.Command, _ []string) error {
				_, err := b.Stream(ctx, bus.Dead)
				return err
			}),
		} {
			cmd.SetContext(t.Context())
			err := cmd.RunE(cmd, []string{"x"})
			if !errors.Is(err, bus.ErrUnreachable) || !strings.Contains(err.Error(), "JetStream at nats://xxxxx@bus.example:4222 did not answer") ||
				!strings.Contains(far.Advice(err), cli.LeaderAdvice) {
				t.Errorf("%s: %v; %s", cmd.Name(), err, far.Advice(err))
			}
		}
		bustest.Subscribe(t, b, b.RPC("tools", "ls")) // a worker that hangs
		cmd := client.RequestCommand(o, "ls", "", rpc.ListOffers, func([]string) (q tools.OfferQuery, _ error) { return q, nil })
		cmd.SetContext(t.Context())
		if err := cmd.RunE(cmd, nil); err == nil || err.Error() != "the worker did not answer within 40s" {
			t.Errorf("a worker that hangs: %v", err)
		}
	})
}
