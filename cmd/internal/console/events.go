package console

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// frameEvery is the interval of live events. What happens in between is one event,
	// so a busy bus does not flood the browser.
	frameEvery = 250 * time.Millisecond
	// runningEvery is how often the workers are asked what they run.
	runningEvery = time.Second
	// pingEvery keeps an idle connection open through proxies.
	pingEvery = 15 * time.Second
	// maxViewers is the most pages that follow the events at once.
	maxViewers = 64
	// maxFrameCalls is the most calls, maxFrameSessions the most names and
	// maxFrameActivity the most activities of an agent, in a frame.
	maxFrameCalls    = 50
	maxFrameSessions = 200
	maxFrameActivity = 200
)

// frame is one live event: what happened since the last one.
type frame struct {
	// Running is the running calls; nil if they are unchanged.
	Running []task.RunningCall `json:"running,omitzero"`
	// Progress is the newest progress of calls, by SESSION.ID.
	Progress map[string]tools.ProgressEvent `json:"progress,omitempty"`
	// Ended are the newest calls that ended, Count is the number of all.
	Ended []task.Ending `json:"ended,omitempty"`
	Count int           `json:"count,omitempty"`
	// Sessions have new entries; Dead counts new dead letters.
	Sessions []string `json:"sessions,omitempty"`
	Dead     int      `json:"dead,omitempty"`
	// Approvals is set if calls began or ended to wait for an approval.
	Approvals bool `json:"approvals,omitempty"`
	// Connected is false while the bus is away.
	Connected bool `json:"connected"`
	// Missed is set if events may have been lost since the last frame: the bus was away, or the viewer was too slow.
	Missed bool `json:"missed,omitempty"`
}

// hub collects events of the bus for the viewers, while there are any.
type hub struct {
	bus *bus.Bus
	log zerolog.Logger

	mu      sync.Mutex
	viewers map[chan []byte]bool // whether it got the last frame
	stop    func()               // ends the collection and waits for it; nil if nobody views
	running []byte               // the last running calls, encoded, to detect changes
}

func newHub(b *bus.Bus, log zerolog.Logger) *hub {
	return &hub{bus: b, log: log, viewers: map[chan []byte]bool{}}
}

// join adds a viewer. ok is false if there are too many.
func (h *hub) join() (frames chan []byte, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.viewers) >= maxViewers {
		return nil, false
	}
	frames = make(chan []byte, 16)
	h.viewers[frames] = true
	h.running = nil // the new viewer gets all running calls
	if h.stop == nil {
		ctx, cancel := context.WithCancel(context.Background())
		var collecting sync.WaitGroup
		collecting.Go(func() { h.collect(ctx) })
		h.stop = func() {
			cancel()
			collecting.Wait()
		}
	}
	return frames, true
}

// leave removes a viewer. With the last one, the collection has ended when it returns.
func (h *hub) leave(frames chan []byte) {
	h.mu.Lock()
	delete(h.viewers, frames)
	stop := func() {}
	if len(h.viewers) == 0 && h.stop != nil {
		stop, h.stop = h.stop, nil
	}
	h.mu.Unlock()
	stop() // the collection may wait for the lock
}

// send passes a frame to all viewers. A viewer that is too slow misses it, and gets all
// running calls with the next one, which says so.
func (h *hub) send(f frame) {
	body, err := json.Marshal(f)
	f.Missed = true
	late, lateErr := json.Marshal(f)
	if err = cmp.Or(err, lateErr); err != nil {
		h.log.Warn().Err(err).Msg("cannot encode live events")
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for viewer, complete := range h.viewers {
		text := body
		if !complete {
			text = late
		}
		select {
		case viewer <- text:
			h.viewers[viewer] = true
		default:
			h.viewers[viewer], h.running = false, nil
		}
	}
}

// runningChanged reports whether the running calls differ from the last ones.
func (h *hub) runningChanged(calls []task.RunningCall) bool {
	body, err := json.Marshal(calls)
	if err != nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	changed := h.running == nil || string(body) != string(h.running)
	h.running = body
	return changed
}

// collect sends frames until ctx ends, and waits for what it started.
func (h *hub) collect(ctx context.Context) {
	var started sync.WaitGroup
	defer started.Wait()
	messages := make(chan *nats.Msg, 8192) // more are lost; the page reads the rest from the streams
	for _, subject := range []string{h.bus.Progress("*", "*"), h.bus.Result("*", "*"), h.bus.Completion("*", "*"), h.bus.Session("*"), h.bus.Dead("*", "*")} {
		sub, err := h.bus.Conn().ChanSubscribe(subject, messages)
		if err != nil {
			h.log.Warn().Err(err).Str("subject", subject).Msg("no live events")
			continue
		}
		defer func() { _ = sub.Unsubscribe() }() // fails only if the connection is closed
	}
	running := make(chan []task.RunningCall)
	started.Go(func() { h.pollRunning(ctx, running) })
	parked := make(chan struct{}, 1)
	started.Go(func() { h.watchParked(ctx, parked) })
	f, sessions := frame{}, map[string]bool{}
	connected, reconnects := true, h.bus.Conn().Stats().Reconnects
	ticker := time.NewTicker(frameEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case calls := <-running:
			f.Running = calls
		case <-parked:
			f.Approvals = true
		case msg := <-messages:
			h.add(&f, sessions, msg)
		case <-ticker.C:
			f.Connected = h.bus.Conn().IsConnected()
			if n := h.bus.Conn().Stats().Reconnects; n != reconnects {
				reconnects, f.Missed = n, true
			}
			f.Sessions = slices.Sorted(maps.Keys(sessions))
			if f.Running == nil && f.Progress == nil && f.Count == 0 && len(f.Sessions) == 0 && f.Dead == 0 && !f.Approvals && !f.Missed && f.Connected == connected {
				continue
			}
			connected = f.Connected
			h.send(f)
			f = frame{}
			clear(sessions)
		}
	}
}

func (h *hub) watchParked(ctx context.Context, parked chan<- struct{}) {
	for ctx.Err() == nil {
		err := task.WatchParked(ctx, h.bus, func() {
			select {
			case parked <- struct{}{}:
			default:
			}
		})
		if err != nil && ctx.Err() == nil {
			h.log.Debug().Err(err).Msg("no live approvals; trying again")
			_ = tools.Sleep(ctx, runningEvery)
		}
	}
}

func (h *hub) pollRunning(ctx context.Context, running chan<- []task.RunningCall) {
	for {
		if calls, err := task.AllRunning(ctx, h.bus); err == nil && h.runningChanged(calls) {
			select {
			case running <- calls:
			case <-ctx.Done():
				return
			}
		}
		if tools.Sleep(ctx, runningEvery) != nil {
			return
		}
	}
}

// add adds a message of the bus to a frame.
func (h *hub) add(f *frame, sessions map[string]bool, msg *nats.Msg) {
	tokens := h.bus.Split(msg.Subject)
	if len(tokens) < 2 {
		return
	}
	switch tokens[0] {
	case "progress":
		var p tools.ProgressEvent
		if json.Unmarshal(msg.Data, &p) != nil || len(tokens) != 3 {
			return
		}
		if f.Progress == nil {
			f.Progress = map[string]tools.ProgressEvent{}
		}
		p.Message = tools.Excerpt(p.Message, 200)
		key := tokens[1] + "." + tokens[2]
		before, known := f.Progress[key]
		if p.Activity = append(before.Activity, p.Activity...); len(p.Activity) > maxFrameActivity {
			p.Activity = p.Activity[len(p.Activity)-maxFrameActivity:] // the conversation has all of it later
		}
		if known || len(f.Progress) < maxFrameSessions {
			f.Progress[key] = p
		}
	case "session":
		if len(sessions) < maxFrameSessions {
			sessions[tokens[1]] = true
		}
	case "dead":
		f.Dead++
	default:
		f.Count++
		if f.Count > maxFrameCalls {
			return // the page reads the others if it needs them
		}
		if e, _, ok := task.EndingOf(h.bus, bus.Stored{Subject: msg.Subject, At: time.Now().UTC(), Body: msg.Data}); ok {
			f.Ended = append(f.Ended, e)
		}
	}
}

// events streams frames as server-sent events.
func (c *Console) events(w http.ResponseWriter, r *http.Request) {
	frames, ok := c.hub.join()
	if !ok {
		writeError(w, http.StatusServiceUnavailable, "too_many", fmt.Sprintf("%d pages follow the events already; close one", maxViewers))
		return
	}
	defer c.hub.leave(frames)
	w.Header().Set("Content-Type", "text/event-stream")
	controller := http.NewResponseController(w)
	write := func(text string) bool {
		_ = controller.SetWriteDeadline(time.Now().Add(2 * pingEvery)) // not every writer has deadlines
		_, err := fmt.Fprint(w, text)
		return err == nil && controller.Flush() == nil
	}
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for ok := write("retry: 2000\n\n"); ok; {
		select {
		case <-r.Context().Done():
			return
		case body := <-frames:
			ok = write("data: " + string(body) + "\n\n") // JSON has no line breaks
		case <-ping.C:
			ok = write(": ping\n\n")
		}
	}
}
