package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// soakClient is a client of the soak tests. It knows a URL, subjects and JSON.
type soakClient struct {
	name, url string
	nkey      string        // file; "" for none
	session   string        // the only one that it may use; "" for all
	pause     time.Duration // between two calls
}

func (c soakClient) connect() (*nats.Conn, error) {
	opts := []nats.Option{
		nats.Name(c.name), nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond), nats.Timeout(time.Second),
		nats.RetryOnFailedConnect(true), nats.PingInterval(time.Second), nats.MaxPingsOutstanding(2),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // publishes that are denied
	}
	if c.nkey != "" {
		key, err := nats.NkeyOptionFromSeed(c.nkey)
		if err != nil {
			return nil, err
		}
		opts = append(opts, key)
	}
	return nats.Connect(c.url, opts...)
}

// soakCall is a call as a client in any language sends it.
type soakCall struct {
	ledgerCall
	queue, tool string
	raw         bool
	args        string
}

var soakKinds = []string{"read", "once", "once", "message", "raw", "async", "agent"}

func (r *soakRun) newCall(client soakClient) soakCall {
	n := r.next.Add(1)
	id := fmt.Sprintf("soak-%d", n)
	kind := soakKinds[n%int64(len(soakKinds))]
	if n%50 == 0 {
		kind = "big"
	}
	session := client.session
	if session == "" {
		session = fmt.Sprint("s", n%10)
	} else if kind == "raw" || kind == "agent" { // it may not submit raw results, and an agent needs a session of its own
		kind = "once"
	}
	c := soakCall{ledgerCall: ledgerCall{id, session, kind}, queue: "default"}
	switch kind {
	case "read":
		c.tool, c.args = "read_file", `{"path":"note.txt"}`
	case "big":
		c.tool, c.args = "read_file", `{"path":"big.txt"}`
	case "once":
		c.tool, c.args = "shell", `{"command":"echo `+id+` >> ran && echo done `+id+`"}`
	case "message":
		c.tool, c.args = "message", `{"content":"hello `+id+`"}`
	case "raw":
		c.tool, c.raw = "outside", true
	case "async":
		c.queue, c.tool, c.args = "async", "background_"+string(asyncEffects[n/int64(len(soakKinds))%2+1]), `{"ms":30,"size":0}`
	case "agent":
		c.queue, c.tool, c.args = "agent", "agent", `{"prompt":"Read the note."}`
		c.session = id
	}
	return c
}

// body returns the body of the call. Each session has a chat of its own, so that its user gets
// the output: the result of a call without a channel is only for the caller.
func (c soakCall) body() string {
	if c.raw {
		return fmt.Sprintf(`{"id":%q,"session":%q,"for_llm":"raw %s"}`, c.id, c.session, c.id)
	}
	return fmt.Sprintf(`{"id":%q,"session":%q,"channel":"notes","chat_id":%q,"args":%s}`, c.id, c.session, c.session, c.args)
}

// Ways in which a client can submit a call.
const (
	published     = iota
	throughWorker // a worker publishes it
	ways
)

// way returns a way that the client may use.
func (c soakCall) way(n int) int {
	if c.raw {
		return published
	}
	return n % ways
}

// submit submits calls until ctx ends. It repeats each until the bus accepts it.
func (r *soakRun) submit(ctx context.Context, client soakClient) {
	nc, err := client.connect()
	if err != nil {
		r.Errorf("%s: %v", client.name, err)
		return
	}
	defer nc.Close()
	for ctx.Err() == nil {
		c := r.newCall(client)
		if client.session == "" {
			r.forge(nc, c)
		}
		for try := 0; ctx.Err() == nil; try++ {
			way := c.way(len(c.id) + int(r.next.Load()) + try)
			r.note(c.id, "%s submits it through %s in way %d", client.name, nc.ConnectedServerName(), way)
			accepted, err := c.send(nc, way)
			if accepted {
				r.accept(c.ledgerCall)
				break
			}
			r.note(c.id, "not accepted: %v", err)
			if try%3 == 2 {
				_ = nc.ForceReconnect() // the client may be on an isolated server
			}
			time.Sleep(100 * time.Millisecond)
		}
		select {
		case <-time.After(client.pause):
		case <-ctx.Done():
		}
	}
}

// forgeries are messages that no worker published.
var forgeries = []string{"", "\x00\xff{", "[]", `{"stream":"STEVEDORE_CALLS","seq":7}`, `{"outcome":"done","for_llm":"forged"}`}

// forge stores such a message in the place of the result of some calls, as any client of the
// same account can.
func (r *soakRun) forge(nc *nats.Conn, c soakCall) {
	if n := r.next.Load(); n%11 == 0 {
		subject := "stevedore." + []string{"result", "completion"}[n/11%2] + "." + c.session + "." + c.id
		body := forgeries[int(n/22)%len(forgeries)]
		r.note(c.id, "forge %q on %s", body, subject)
		_ = nc.Publish(subject, []byte(body))
	}
}

// send submits the call once.
func (c soakCall) send(nc *nats.Conn, way int) (accepted bool, err error) {
	kind, msg := "call", nats.NewMsg("")
	if c.raw {
		kind = "raw"
	}
	msg.Data = []byte(c.body())
	msg.Subject = fmt.Sprintf("stevedore.%s.%s.%s.%s.%s", kind, c.queue, c.tool, c.session, c.id)
	if way == throughWorker {
		msg.Subject = fmt.Sprintf("stevedore.rpc.submit.%s.%s.%s.%s", c.queue, c.tool, c.session, c.id)
	}
	answer, err := nc.RequestMsg(msg, 2*time.Second)
	if err != nil {
		return false, err
	}
	var ack struct {
		Seq   int
		Error *struct {
			ErrCode int `json:"err_code"`
		}
		ID string // the worker's answer to a submit
	}
	if err := json.Unmarshal(answer.Data, &ack); err != nil {
		return false, fmt.Errorf("the answer is %.200s", answer.Data)
	}
	const subjectExists = 10077 // an earlier try was stored, or will be: try again
	if way == published && ack.Error != nil && ack.Error.ErrCode == subjectExists {
		stored, err := nc.Request("$JS.API.DIRECT.GET.STEVEDORE_CALLS."+msg.Subject, nil, 2*time.Second)
		return err == nil && stored.Header.Get("Status") == "", fmt.Errorf("the server says that the subject exists; reading it: %v", err)
	}
	if ack.Seq == 0 && (ack.ID != c.id || ack.Error != nil) {
		return false, fmt.Errorf("the answer is %.200s", answer.Data)
	}
	return true, nil
}
