package serverconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/bustest"
)

// live is a server with the generated configuration, with the streams of the tenant red and a message
// in each that an attack may use.
type live struct {
	*testing.T
	dir, url string
	cfg      Config
	operator *bus.Bus
	// seen are the subjects of the messages that anybody publishes in the tenant's account.
	seen *nats.Subscription
	n    int
}

func startLive(t *testing.T) *live {
	l := &live{T: t, dir: t.TempDir()}
	l.cfg = config(t, Tenant{Name: "red", Sessions: []string{"s1"}, Queues: []string{"default"}, Bridges: []string{"chat"}})
	if _, err := Write(l.dir, l.cfg); err != nil {
		t.Fatal(err)
	}
	opts, err := server.ProcessConfigFile(filepath.Join(l.dir, File))
	if err != nil {
		t.Fatal(err)
	}
	opts.Port, opts.NoSigs, opts.SyncAlways = -1, true, false
	srv, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(bustest.Timeout) {
		t.Fatal("the server does not start")
	}
	l.url = srv.ClientURL()
	if l.operator, err = bus.Connect(t.Context(), bus.Config{Server: l.url, NKey: filepath.Join(l.dir, "red-operator.nk"), Log: bustest.Log(t)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.operator.Close)
	if _, err := admin.Provision(t.Context(), l.operator, admin.Nothing); err != nil {
		t.Fatal(err)
	}
	for _, c := range []bus.Consumer{l.operator.WorkerConsumer(bus.DefaultQueue), l.operator.ChannelConsumer("chat")} {
		if _, err := l.operator.Consumer(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	for _, subject := range []string{
		l.operator.Call("default", "shell", "s1", "c"), l.operator.Result("s1", "c"), l.operator.Session("s1"), l.operator.Dead("call", "x"),
		l.operator.Notify("chat", "1"),
	} {
		if _, err := l.operator.Publish(t.Context(), bus.Message{Subject: subject, Body: []byte(`{}`)}); err != nil {
			t.Fatal(subject, err)
		}
	}
	if _, err := micro.AddService(l.operator.Conn(), micro.Config{Name: "stevedore", Version: "1.0.0"}); err != nil {
		t.Fatal(err)
	}
	nc := l.login("red-operator", "")
	if _, err := nc.Subscribe(pushed, func(*nats.Msg) {}); err != nil { // the server pushes only if somebody subscribes to just this subject
		t.Fatal(err)
	}
	if l.seen, err = nc.SubscribeSync("*.>"); err == nil {
		err = l.seen.SetPendingLimits(-1, -1)
	}
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *live) login(name, inbox string) *nats.Conn {
	l.Helper()
	key, err := nats.NkeyOptionFromSeed(filepath.Join(l.dir, name+".nk"))
	if err != nil {
		l.Fatal(err)
	}
	opts := []nats.Option{key, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})}
	if inbox != "" {
		opts = append(opts, nats.CustomInboxPrefix(inbox))
	}
	nc, err := nats.Connect(l.url, opts...)
	if err != nil {
		l.Fatal(name, err)
	}
	l.Cleanup(nc.Close)
	return nc
}

// denied publishes a message and reports whether the server refuses it. The refusal comes before the
// answer to Flush.
func (l *live) denied(nc *nats.Conn, m *nats.Msg) bool {
	l.Helper()
	if err := nc.PublishMsg(m); err != nil {
		l.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		l.Fatal(err)
	}
	err := nc.LastError()
	return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(strings.ToLower(err.Error()), `publish to "`+strings.ToLower(m.Subject)+`"`)
}

// published waits for a message on a subject until another one, which was published after what may
// have caused it, has come.
func (l *live) published(subject string) bool {
	l.Helper()
	l.n++
	end := fmt.Sprintf("end.%d", l.n)
	if err := l.operator.Conn().Publish(end, nil); err != nil {
		l.Fatal(err)
	}
	for found := false; ; {
		m, err := l.seen.NextMsg(bustest.Timeout)
		if err != nil {
			l.Fatal(err)
		}
		found = found || m.Subject == subject
		if m.Subject == end {
			return found
		}
	}
}

// pushed is the deliver subject of a push consumer.
const pushed = "stevedore.notify.console.push"

// apis are all subjects of the API of JetStream in nats-server 2.15, and those beside it on which a
// server acts. {S} is a stream.
var apis = strings.Fields(`INFO STREAM.CREATE.{S} STREAM.UPDATE.{S} STREAM.NAMES STREAM.LIST STREAM.INFO.{S} STREAM.DELETE.{S} STREAM.PURGE.{S}
	STREAM.SNAPSHOT.{S} STREAM.RESTORE.{S} STREAM.MSG.DELETE.{S} STREAM.MSG.GET.{S} DIRECT.GET.{S} DIRECT.GET.{S}.x.y CONSUMER.CREATE.{S}
	CONSUMER.CREATE.{S}.c CONSUMER.CREATE.{S}.c.f.g CONSUMER.DURABLE.CREATE.{S}.c CONSUMER.NAMES.{S} CONSUMER.LIST.{S} CONSUMER.INFO.{S}.c
	CONSUMER.DELETE.{S}.c CONSUMER.PAUSE.{S}.c CONSUMER.MSG.NEXT.{S}.c CONSUMER.RESET.{S}.c CONSUMER.UNPIN.{S}.c STREAM.PEER.REMOVE.{S}
	STREAM.PEER.EVACUATE.{S} STREAM.CANCEL_MOVE.{S} STREAM.LEADER.STEPDOWN.{S} CONSUMER.LEADER.STEPDOWN.{S}.c CONSUMER.PEER.REMOVE.{S}.c
	CONSUMER.PEER.EVACUATE.{S}.c META.LEADER.STEPDOWN SERVER.REMOVE SERVER.EVACUATE META.RESCUE ACCOUNT.PURGE.red ACCOUNT.STREAM.MOVE.red.{S}
	ACCOUNT.STREAM.CANCEL_MOVE.red.{S}`)

// Each generated login is tried with each request to JetStream on each stream, and with what the
// server publishes for it. The server agrees with the configuration, and each effect that it lets
// happen is one that the table of docs/security.md gives to this login.
func TestLoginsOnALiveServer(t *testing.T) {
	subjects, err := bus.NewSubjects("")
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Subjects: subjects, Tenants: []Tenant{{Name: "red", Sessions: []string{"s1"}, Queues: []string{"default"}, Bridges: []string{"chat"}}}}
	for _, u := range c.Users() {
		t.Run(u.Name, func(t *testing.T) {
			t.Parallel()
			l := startLive(t)
			nc := l.login(u.Name, u.Inbox)
			if u.Name == "system" {
				for _, subject := range []string{"stevedore.call.default.shell.s1.evil", "$JS.API.STREAM.DELETE.STEVEDORE_CALLS", "$JS.API.STREAM.PURGE.STEVEDORE_CALLS"} {
					l.denied(nc, nats.NewMsg(subject)) // in its own account
					if l.published(subject) {
						t.Errorf("%s reaches the tenant", subject)
					}
				}
				return
			}
			tried, done := 0, 0
			for _, a := range attacks(l, u) {
				tried++
				happened := a.do(nc)
				if happened {
					done++
				}
				if want := strings.Contains(a.may, " "+strings.TrimPrefix(u.Name, "red-")+" "); happened != want {
					t.Errorf("%s: it happens: %v, want %v", a.name, happened, want)
				}
			}
			if len(u.publish) == 0 {
				t.Logf("%d effects tried, %d happened; the operator may publish everything", tried, done)
				return
			}
			requests, refused := 0, 0
			for _, api := range apis {
				for i, stream := range streamsOf(subjects) {
					subject := "$JS.API." + strings.ReplaceAll(api, "{S}", stream)
					if i > 0 && !strings.Contains(api, "{S}") {
						break
					}
					want := !slices.ContainsFunc(u.publish, func(pattern string) bool { return matches(pattern, subject) })
					requests++
					if want {
						refused++
					}
					if got := l.denied(nc, &nats.Msg{Subject: subject, Reply: nc.NewInbox(), Data: []byte(`{"seq":999999,"name":"x"}`)}); got != want {
						t.Errorf("%s is refused: %v, want %v", subject, got, want)
					}
				}
			}
			t.Logf("%d effects tried, %d happened; %d requests to JetStream, %d refused", tried, done, requests, refused)
		})
	}
}

// attack is something that the server does for a login without a look at its permissions.
type attack struct {
	name string
	may  string // the logins for which it happens, each between spaces
	do   func(*nats.Conn) (happened bool)
}

func attacks(l *live, u User) []attack {
	const none, op, worker, console = " ", " operator ", " operator worker ", " operator worker console "
	s, js, ctx := l.operator.Subjects, l.operator.JetStream(), l.Context()
	calls, results, outbox := s.StreamName(bus.Calls), s.StreamName(bus.Results), s.StreamName(bus.Outbox)
	// request sends a request and waits for the answer, if the login may send it. An answer means that
	// the server has done what was asked before, too.
	request := func(nc *nats.Conn, subject, body string) (answer *nats.Msg) {
		l.Helper()
		ctx, cancel := context.WithTimeout(ctx, bustest.Timeout)
		defer cancel()
		inbox, err := nc.SubscribeSync(nc.NewInbox())
		if err != nil {
			l.Fatal(err)
		}
		if l.denied(nc, &nats.Msg{Subject: subject, Reply: inbox.Subject, Data: []byte(body)}) {
			return nil
		}
		if answer, err = inbox.NextMsgWithContext(ctx); err != nil {
			l.Fatal(subject, err)
		}
		return answer
	}
	api := func(subject, body string, effect func() bool) func(*nats.Conn) bool {
		return func(nc *nats.Conn) bool { request(nc, "$JS.API."+subject, body); return effect() }
	}
	// arrives waits for a message on a subject; that of a consumer shows the one under which it is stored.
	arrives := func(to string) bool {
		m, err := l.seen.NextMsg(bustest.Timeout)
		for ; err == nil && m.Subject != to && !strings.HasPrefix(m.Reply, "$JS.ACK."); m, err = l.seen.NextMsg(bustest.Timeout) {
		}
		return err == nil
	}
	// reply has the server answer on a subject that is not the login's.
	reply := func(subject, body, to string) func(*nats.Conn) bool {
		return func(nc *nats.Conn) bool {
			if l.denied(nc, &nats.Msg{Subject: subject, Reply: to, Data: []byte(body)}) {
				return l.published(to)
			}
			if strings.Contains(" operator worker console ", " "+strings.TrimPrefix(u.Name, "red-")+" ") { // they are in the account
				return arrives(to)
			}
			request(nc, subject, body)
			return l.published(to)
		}
	}
	exists := func(stream string) func() bool {
		return func() bool {
			_, err := js.Stream(ctx, stream)
			if err == nil && stream == "EVIL" {
				err = js.DeleteStream(ctx, stream)
			}
			return err == nil
		}
	}
	config := func(stream string) jetstream.StreamConfig {
		info, err := js.Stream(ctx, stream)
		if err != nil {
			l.Fatal(err)
		}
		return info.CachedInfo().Config
	}
	update := func(change func(*jetstream.StreamConfig)) string {
		cfg := config(calls)
		change(&cfg)
		text, _ := json.Marshal(cfg)
		return string(text)
	}
	stored := func(subject string) func(*nats.Conn) bool {
		return func(nc *nats.Conn) bool {
			l.denied(nc, &nats.Msg{Subject: subject, Data: []byte(`{}`)})
			return l.published(subject)
		}
	}
	all := []attack{
		{"create a stream", op, api("STREAM.CREATE.EVIL", `{"name":"EVIL","subjects":["evil"]}`, exists("EVIL"))},
		{"create a mirror", op, api("STREAM.CREATE.EVIL", `{"name":"EVIL","mirror":{"name":"`+results+`"}}`, exists("EVIL"))},
		{"create a stream with sources", op, api("STREAM.CREATE.EVIL", `{"name":"EVIL","sources":[{"name":"`+results+`"}]}`, exists("EVIL"))},
		{"create a stream that republishes", op, api("STREAM.CREATE.EVIL",
			`{"name":"EVIL","subjects":["e"],"republish":{"src":">","dest":"stevedore.notify.console.>"}}`, exists("EVIL"))},
		{"republish the calls", op, api("STREAM.UPDATE."+calls, update(func(c *jetstream.StreamConfig) {
			c.RePublish = &jetstream.RePublish{Source: ">", Destination: "stevedore.notify.console.>"}
		}), func() bool { return config(calls).RePublish != nil })},
		{"change a stream", op, api("STREAM.UPDATE."+calls, update(func(c *jetstream.StreamConfig) { c.Description = "evil" }),
			func() bool { return config(calls).Description == "evil" })},
		{"read into a foreign subject", console, reply("$JS.API.STREAM.MSG.GET."+results, `{"seq":1}`, "stevedore.result.evil.get")},
		{"read directly into a foreign subject", console, reply("$JS.API.DIRECT.GET."+results, `{"seq":1}`, "stevedore.result.evil.direct")},
		{"have an error answered on a foreign subject", console, reply("$JS.API.STREAM.INFO.NONE", ``, "stevedore.result.evil.info")},
		{"have a service answer on a foreign subject", console, reply("$SRV.STATS.stevedore", ``, "stevedore.result.evil.stats")},
		{"have a publish acknowledged on a foreign subject", console, reply(s.Call("default", "shell", "s1", "ack"), `{}`, "stevedore.result.evil.ack")},
		{"take a notification into a foreign subject", worker, reply("$JS.API.CONSUMER.MSG.NEXT."+outbox+".notify-chat",
			`{"batch":1,"no_wait":true}`, "stevedore.result.evil.next")},
		{"push with a deliver subject", worker, func(nc *nats.Conn) bool {
			body := `{"stream_name":"` + results + `","config":{"deliver_subject":"` + pushed + `","ack_policy":"explicit","name":"c","inactive_threshold":60000000000}}`
			for _, subject := range []string{"CREATE." + results, "CREATE." + results + ".c", "DURABLE.CREATE." + results + ".c"} {
				if request(nc, "$JS.API.CONSUMER."+subject, body) == nil {
					continue
				}
				return arrives(pushed)
			}
			return l.published(pushed)
		}},
		{"pull with a new consumer", worker, func(nc *nats.Conn) bool {
			answer := request(nc, "$JS.API.CONSUMER.CREATE."+results+".p", `{"stream_name":"`+results+`","config":{"name":"p","ack_policy":"none"}}`)
			return answer != nil && strings.Contains(string(answer.Data), `"created"`)
		}},
		{"delete the consumer of the workers", worker, func(nc *nats.Conn) bool {
			answer := request(nc, "$JS.API.CONSUMER.DELETE."+calls+".worker-default", "")
			return answer != nil && strings.Contains(string(answer.Data), `"success":true`)
		}},
		{"schedule a message for another target", worker, func(nc *nats.Conn) bool {
			m := nats.NewMsg("stevedore.schedule.cron.evil")
			m.Header.Set("Nats-Schedule", "@at "+time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
			m.Header.Set("Nats-Schedule-Target", "stevedore.run.cron.evil")
			l.denied(nc, m)
			return l.published(m.Subject)
		}},
		{"schedule by a call", none, func(nc *nats.Conn) bool {
			m := nats.NewMsg(s.Call("default", "shell", "s1", "scheduled"))
			m.Header.Set("Nats-Schedule", "@at 2020-01-01T00:00:00Z")
			m.Header.Set("Nats-Schedule-Target", s.Call("default", "shell", "s2", "target"))
			m.Header.Set("Nats-Rollup", "all")
			l.denied(nc, m)
			stream, err := js.Stream(ctx, calls)
			if err != nil {
				l.Fatal(err)
			}
			if _, err := stream.GetLastMsgForSubject(ctx, s.Call("default", "shell", "s1", "c")); err != nil {
				return true // the rollup removed it
			}
			_, err = stream.GetLastMsgForSubject(ctx, m.Subject)
			return err == nil
		}},
		{"write a call of another session", " operator worker console queue-default ", stored(s.Call("default", "shell", "s2", "evil"))},
		{"write a call of the session", " operator worker console queue-default session-s1 ", stored(s.Call("default", "shell", "s1", "fine"))},
		{"write a call of another queue", console, stored(s.Call("other", "shell", "s2", "evil"))},
		{"write a result", worker, stored(s.Result("s2", "evil"))},
		{"write a report", worker, stored("stevedore.report.s2.evil")},
		{"write a conversation", worker, stored(s.Session("s2"))},
		{"write a notification", console, stored(s.Notify("console", "evil"))},
		{"write a dead letter", worker, stored(s.Dead("call", "evil"))},
		{"write a tick", worker, stored("stevedore.tick.cron.evil")},
		{"write a record of a task", console, stored("$KV." + s.BucketName(bus.TasksBucket) + ".call.s.evil")},
		{"write a record of an artifact", worker, stored("$KV." + s.BucketName(bus.ArtifactsBucket) + ".evil")},
		{"write the state", worker, stored("$KV." + s.BucketName(bus.StateBucket) + ".evil")},
		{"write a blob", worker, stored("$O." + s.BucketName(bus.BlobsBucket) + ".M.evil")},
		{"copy a stream to a subject", op, func(nc *nats.Conn) bool {
			const to = "stevedore.notify.console.snapshot"
			bustest.Subscribe(l, l.operator, to) // the server waits 2 s for one without wildcards
			answer := request(nc, "$JS.API.STREAM.SNAPSHOT."+results, `{"deliver_subject":"`+to+`"}`)
			if answer == nil {
				return l.published(to)
			}
			return arrives(to)
		}},
	}
	for _, stream := range streamsOf(s)[1:] {
		may := worker
		if slices.Contains([]string{calls, s.StreamName(bus.Sessions), s.StreamName(bus.Dead)}, stream) {
			may = console
		}
		all = append(all, attack{"remove messages of " + stream, may, func(nc *nats.Conn) bool {
			purged := request(nc, "$JS.API.STREAM.PURGE."+stream, `{"filter":"none"}`)
			deleted := request(nc, "$JS.API.STREAM.MSG.DELETE."+stream, `{"seq":999999}`)
			return purged != nil && strings.Contains(string(purged.Data), `"success":true`) ||
				deleted != nil && strings.Contains(string(deleted.Data), "stream store EOF") // there is no such message
		}}, attack{"delete " + stream, op, api("STREAM.DELETE."+stream, "", func() bool { return !exists(stream)() })})
	}
	return all
}
