package wrap

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/artifacts"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
	"github.com/stevedore-bus/stevedore/tools"
)

// backgroundWait is how long the reading tool waits for a call that runs in the background. Hosts
// give up a call after 60 s or more.
const backgroundWait = 40 * time.Second

// job is a call that took longer than Config.BackgroundAfter. The client has an answer, and the
// result will be an artifact.
type job struct {
	id      string // of the artifact
	owner   *proxy
	started time.Time
	done    chan struct{}
	lost    string // why there is no artifact, once done is closed
}

// lostKept is how long a client is told why there is no artifact.
const lostKept = 30 * time.Minute

// jobKey is the key of a job in Config.jobs.
func (p *proxy) jobKey(id string) string { return p.cfg.session + "/" + id }

// lose ends a job whose result nobody gets.
func (p *proxy) lose(j *job, why string) {
	j.lost = why
	close(j.done)
	time.AfterFunc(lostKept, func() { p.cfg.jobs.Delete(p.jobKey(j.id)) })
}

// toBackground answers a call that goes on.
func (p *proxy) toBackground(ctx context.Context, r *request) {
	p.mu.Lock()
	if p.pending[r.ID] != r || r.answered || r.cancelled || p.ended {
		p.mu.Unlock()
		return
	}
	j := &job{id: artifacts.NewID(r.tool), owner: p, started: time.Now().Add(-p.cfg.BackgroundAfter), done: make(chan struct{})}
	r.job = j
	p.cfg.jobs.Store(p.jobKey(j.id), j)
	p.startLocked(func() {
		p.offerReading(ctx)
		m := wire.Response(r.ID, r.toolResult(tools.NewToolResult(p.text(fmt.Sprintf(
			"%s has run for %s and goes on. Its result will be the artifact '%s': get_knowledge_by_id(artifact_id) waits for it. With the "+
				"argument cancel=true, it ends the call.", r.name(), p.cfg.BackgroundAfter, j.id)))))
		p.toClient(m)
		p.count(r, nil, m.Result)
	})
	p.mu.Unlock()
}

// finishJob stores the result of a call that ran in the background.
func (p *proxy) finishJob(ctx context.Context, r *request, text string) {
	got, err := p.hosted.Load().shrinker.storeAs(ctx, r.job.id, r.tool, text)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err != nil:
		p.lose(r.job, fmt.Sprintf("The result of %s is lost: %v", r.name(), err))
	case got.artifact == nil:
		p.lose(r.job, got.reference)
	default:
		p.cfg.jobs.Delete(p.jobKey(r.job.id))
		close(r.job.done)
		p.startLocked(func() { p.report(r, Count{Tool: r.tool, Whole: got.artifact.Chars}) })
	}
	p.removeLocked(r)
}

// jobText returns what an artifact has of a response: its texts, or all of it if there is more.
func (r *request) jobText(m *wire.Message) string {
	if m.Error != nil {
		return fmt.Sprintf("%s failed: %s", r.name(), m.Error)
	}
	var all []string
	for raw := range wire.Elements(wire.Get(m.Result, "content")) {
		b, ok := blockOf(len(all), raw)
		if !ok || b.file {
			return string(m.Result)
		}
		all = append(all, b.text)
	}
	if structured := structuredOf(m.Result); all == nil || structured != nil && !Repeated(structured, all) {
		return string(m.Result)
	}
	text := strings.Join(all, "\n")
	if string(wire.Get(m.Result, "isError")) == "true" {
		text = fmt.Sprintf("%s failed:\n%s", r.name(), text)
	}
	return text
}

// awaitJob waits for the call whose result a reading tool wants. It returns what the model gets
// if there is no artifact, and otherwise the arguments of the tool.
func (p *proxy) awaitJob(ctx context.Context, args json.RawMessage) (json.RawMessage, *tools.Result) {
	found, _ := p.cfg.jobs.Load(p.jobKey(artifacts.IDIn(args)))
	j, _ := found.(*job)
	end := string(wire.Get(args, "cancel")) == "true"
	if end {
		args = slices.DeleteFunc(wire.ObjectOf(args), func(m wire.Member) bool { return m.Name == "cancel" }).Text()
	}
	wait := min(backgroundWait, p.cfg.BackgroundAfter)
	switch {
	case j == nil:
		return args, nil
	case end:
		j.owner.cancelJob(j)
		wait = backgroundWait // its end is near
	}
	select {
	case <-j.done:
	case <-ctx.Done():
	case <-time.After(wait):
		return nil, tools.NewToolResult(fmt.Sprintf("The call still runs (%s so far). Read it again to go on waiting.", time.Since(j.started).Round(time.Second)))
	}
	if j.lost != "" {
		return nil, tools.ErrorResult(j.lost)
	}
	return args, nil
}

// cancelJob tells the server to end a call. Its artifact says so.
func (p *proxy) cancelJob(j *job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.pending {
		if r.job != j || r.answered {
			continue
		}
		if c := p.server; c != nil && r.queued {
			c.send(wire.Request("", "notifications/cancelled", fields{"requestId": json.RawMessage(r.ID), "reason": "the model cancelled it"}))
		}
		p.failLocked(r, fmt.Sprintf("%s was cancelled.%s", r.name(), r.warning()))
	}
}
