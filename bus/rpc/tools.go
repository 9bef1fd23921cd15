package rpc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// ToolInfo is a tool that workers offer, and where.
type ToolInfo struct {
	tools.OfferedTool
	// Queues that are served by workers that have the tool, and these workers.
	Queues  []string `json:"queues"`
	Workers []string `json:"workers"`
}

// Text tells all of a tool, for people and models.
func (t ToolInfo) Text() string {
	schema, err := json.MarshalIndent(t.Parameters, "", "  ")
	if err != nil {
		schema = []byte(err.Error())
	}
	return fmt.Sprintf("%s\n\n%s\n\nEffect: %s (%s)\nQueues: %s\nWorkers: %s\nArguments, as a JSON Schema:\n%s",
		t.Name, t.Description, t.Effect, effects[t.Effect], strings.Join(t.Queues, ", "), strings.Join(t.Workers, ", "), schema)
}

// effects say what an effect means for who calls.
var effects = map[tools.Effect]string{
	tools.Once:       "never run twice; after a crash its outcome is unknown",
	tools.Keyed:      "run again after a crash, under a key by which the second time is dropped",
	tools.Idempotent: "run again after a crash, which is harmless",
}

// Summary is the first clause of the description.
func (t ToolInfo) Summary() string {
	text, _, _ := strings.Cut(strings.TrimSpace(t.Description), "\n")
	for _, end := range []string{". ", ": ", "; "} {
		text, _, _ = strings.Cut(text, end)
	}
	return tools.Excerpt(strings.TrimSuffix(text, "."), 120)
}

// ToolList are the tools that all workers offer, by name. Where workers differ
// about a tool, it is listed more than once, each time with its queues.
type ToolList struct {
	Tools []ToolInfo `json:"tools"`
}

// Text is one line for each tool.
func (l ToolList) Text() string {
	lines := make([]string, len(l.Tools))
	for i, t := range l.Tools {
		lines[i] = fmt.Sprintf("%s: %s [%s; %s]", t.Name, t.Summary(), t.Effect, strings.Join(t.Queues, ", "))
	}
	return strings.Join(lines, "\n")
}

// toolDetails is a list whose text tells all.
type toolDetails struct{ ToolList }

func (d toolDetails) Text() string {
	texts := make([]string, len(d.Tools))
	for i, t := range d.Tools {
		texts[i] = t.Text()
	}
	return strings.Join(texts, "\n\n")
}

const (
	// offerQuiet is how long nobody must have answered until all have; nobody
	// knows how many workers there are.
	offerQuiet = 300 * time.Millisecond
	// listenPatience is how long a worker of a queue may take to say that it is
	// one.
	listenPatience = time.Second
)

// ListTools asks all workers, and returns the tools of those that q is for.
func ListTools(ctx context.Context, b *bus.Bus, q tools.OfferQuery) (ToolList, error) {
	list := ToolList{Tools: []ToolInfo{}}
	offers, err := askOffers(ctx, b, q)
	if err != nil {
		return list, err
	}
	byDefinition := map[string]*ToolInfo{}
	for _, o := range offers {
		for _, t := range o.Tools {
			definition, err := bus.Encode(t)
			if err != nil {
				return list, err
			}
			info := byDefinition[string(definition)]
			if info == nil {
				info = &ToolInfo{OfferedTool: t}
				byDefinition[string(definition)] = info
			}
			info.Queues, info.Workers = append(info.Queues, o.Queues...), append(info.Workers, o.Worker)
		}
	}
	for _, info := range byDefinition {
		info.Queues, info.Workers = unique(info.Queues), unique(info.Workers)
		list.Tools = append(list.Tools, *info)
	}
	slices.SortFunc(list.Tools, func(a, b ToolInfo) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), slices.Compare(a.Queues, b.Queues), slices.Compare(a.Workers, b.Workers))
	})
	return list, nil
}

func unique(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// askOffers returns what the workers say that q is for.
func askOffers(ctx context.Context, b *bus.Bus, q tools.OfferQuery) ([]tools.Offer, error) {
	body, err := bus.Encode(q)
	if err != nil {
		return nil, err
	}
	inbox := b.Conn().NewInbox()
	sub, err := b.Conn().SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("ask what workers offer: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // gone with the connection otherwise
	if err := b.Conn().PublishRequest(b.RPC("offer"), inbox, body); err != nil {
		return nil, fmt.Errorf("ask what workers offer: %w", err)
	}
	var offers []tools.Offer
	patience := listenPatience
	for {
		waiting, stop := context.WithTimeout(ctx, patience)
		msg, err := sub.NextMsgWithContext(waiting)
		stop()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrNoResponders):
			return offers, nil
		case err != nil:
			return nil, fmt.Errorf("ask what workers offer: %w", err)
		}
		var o tools.Offer
		if json.Unmarshal(msg.Data, &o) == nil {
			offers, patience = append(offers, o), offerQuiet
		}
	}
}

// HasWorker reports whether a worker serves a queue and, if tool is not empty,
// has that tool. It takes a second at most if nobody does, or cannot say so.
func HasWorker(ctx context.Context, b *bus.Bus, queue, tool string) (bool, error) {
	body, err := bus.Encode(tools.OfferQuery{Queue: queue, Tool: tool, Brief: true})
	if err != nil {
		return false, err
	}
	asking, stop := context.WithTimeout(ctx, listenPatience)
	defer stop()
	_, err = b.Conn().RequestWithContext(asking, b.RPC("offer"), body)
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil:
		return false, ctx.Err()
	case !errors.Is(err, nats.ErrNoResponders) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrTimeout):
		return false, fmt.Errorf("ask who serves queue %q: %w", queue, err)
	case tool != "":
		return false, nil
	}
	// A program of somebody else's may pull the queue's calls.
	c := b.WorkerConsumer(queue)
	consumer, err := b.JetStream().Consumer(ctx, b.StreamName(c.Stream), c.Name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask who serves queue %q: %w", queue, err)
	}
	return consumer.CachedInfo().NumWaiting > 0, nil
}

// tools tells which tools workers offer: <prefix>.rpc.tools.ls, and .show for
// all of one tool. Both take a tools.OfferQuery.
func (s *Service) tools(ctx context.Context, req micro.Request) (any, error) {
	var q tools.OfferQuery
	if err := json.Unmarshal(orEmpty(req.Data()), &q); err != nil {
		return nil, badRequest(err)
	}
	q.Brief = false
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ReadTimeout)
	defer cancel()
	switch function := s.bus.Split(req.Subject())[2]; function {
	case "ls":
		return s.fitting(ctx, q)
	case "show":
		return s.showTool(ctx, q)
	default:
		return nil, tools.Errorf(tools.CodeInvalidArguments, "unknown function %q; known are ls, show", tools.Excerpt(function, 80))
	}
}

// fitting lists tools, without the schemas if those do not fit into a message.
func (s *Service) fitting(ctx context.Context, q tools.OfferQuery) (ToolList, error) {
	list, err := ListTools(ctx, s.bus, q)
	if err != nil {
		return list, err
	}
	body, err := bus.Encode(list)
	if len(body)+len(list.Text())*2 > int(s.bus.Conn().MaxPayload()) {
		for i := range list.Tools {
			list.Tools[i].Parameters = nil
		}
	}
	return list, err
}

func (s *Service) showTool(ctx context.Context, q tools.OfferQuery) (any, error) {
	if q.Tool == "" {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "the request names no tool; give its name as tool")
	}
	list, err := ListTools(ctx, s.bus, q)
	if err != nil {
		return nil, err
	}
	if len(list.Tools) == 0 {
		return nil, tools.Errorf(tools.CodeNotFound, "no worker offers the tool %q", tools.Excerpt(q.Tool, 80))
	}
	return toolDetails{list}, nil
}
