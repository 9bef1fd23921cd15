package rpc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// ToolInfo is a tool that workers offer.
type ToolInfo struct {
	tools.OfferedTool
	// Workers have the tool; Queues are the queues that they consume.
	Queues  []string `json:"queues"`
	Workers []string `json:"workers"`
}

// Text describes the tool for people and models.
func (t ToolInfo) Text() string {
	schema, err := json.MarshalIndent(t.Parameters, "", "  ")
	if err != nil {
		schema = []byte(err.Error())
	}
	return fmt.Sprintf("%s\n\n%s\n\nEffect: %s (%s)\nQueues: %s\nWorkers: %s\nArguments, as a JSON Schema:\n%s",
		t.Name, t.Description, t.Effect, effects[t.Effect], strings.Join(t.Queues, ", "), strings.Join(t.Workers, ", "), schema)
}

// effects explains each effect to the caller.
var effects = map[tools.Effect]string{
	tools.Once:       "never run twice; after a crash its outcome is unknown",
	tools.Keyed:      "run again after a crash with the same key, so that the duplicate is dropped",
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

// ToolList lists the tools that all workers offer, by name. If workers offer
// different definitions of a tool, the list has one entry for each definition.
type ToolList struct {
	Tools []ToolInfo `json:"tools"`

	detailed bool
}

// Names returns the names of the tools.
func (l ToolList) Names() []string {
	names := make([]string, len(l.Tools))
	for i, t := range l.Tools {
		names[i] = t.Name
	}
	return names
}

// Text is one line for each tool, or all its details.
func (l ToolList) Text() string {
	lines := make([]string, len(l.Tools))
	for i, t := range l.Tools {
		if l.detailed {
			lines[i] = t.Text() + "\n"
			continue
		}
		lines[i] = fmt.Sprintf("%s: %s [%s; %s]", t.Name, t.Summary(), t.Effect, strings.Join(t.Queues, ", "))
	}
	return strings.TrimSuffix(strings.Join(lines, "\n"), "\n")
}

// offerTimeout is how long the first worker with a tool may take to answer an offer query.
const offerTimeout = time.Second

// ListTools asks all workers for the tools that match q. Workers without a tool do not answer a query for it, so if none
// answers within a second, ListTools asks all of the queue, of which a slow one may have it. The error is task.ErrSilent if
// workers do not answer, also not to a request that all of them answer.
func ListTools(ctx context.Context, b *bus.Bus, q tools.OfferQuery) (ToolList, error) {
	list, err := listTools(ctx, b, q)
	if q.Tool == "" || len(list.Tools) > 0 || err != nil {
		return list, err
	}
	return slowTools(ctx, b, q)
}

// slowTools asks all workers of a queue for a tool that none of them offered within offerTimeout.
func slowTools(ctx context.Context, b *bus.Bus, q tools.OfferQuery) (ToolList, error) {
	list, err := listTools(ctx, b, tools.OfferQuery{Queue: q.Queue})
	list.Tools = slices.DeleteFunc(list.Tools, func(t ToolInfo) bool { return t.Name != q.Tool })
	return list, err
}

func listTools(ctx context.Context, b *bus.Bus, q tools.OfferQuery) (ToolList, error) {
	list := ToolList{Tools: []ToolInfo{}}
	query, err := bus.Encode(q)
	if err != nil {
		return list, err
	}
	timeout := task.FirstAnswer
	if q.Tool != "" {
		timeout = offerTimeout
	}
	offers, err := task.Collect[tools.Offer](ctx, b.Conn(), b.RPC("offer"), query, timeout)
	switch {
	case !errors.Is(err, task.ErrSilent):
	case q.Tool != "": // slowTools asks all workers of the queue
		err = nil
	case q.Queue != "": // workers of other queues do not answer
		err = anyAnswers(ctx, b)
	}
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
	}
	for _, info := range slices.SortedFunc(maps.Values(byDefinition), func(a, b *ToolInfo) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), slices.Compare(a.Queues, b.Queues), slices.Compare(a.Workers, b.Workers))
	}) {
		list.Tools = append(list.Tools, *info)
	}
	return list, nil
}

func unique(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// anyAnswers returns task.ErrSilent if workers listen, and none of any queue answers.
func anyAnswers(ctx context.Context, b *bus.Bus) error {
	_, err := task.Collect[tools.Offer](ctx, b.Conn(), b.RPC("offer"), []byte(`{"brief":true}`), offerTimeout)
	return err
}

// HasWorker reports whether a worker consumes a queue and, if tool is not empty,
// has that tool. The error is task.ErrSilent if no worker answers although some listen.
func HasWorker(ctx context.Context, b *bus.Bus, queue, tool string) (bool, error) {
	q := tools.OfferQuery{Queue: queue, Tool: tool}
	if ok, err := task.IsOffered(ctx, b, q, offerTimeout); ok || err != nil {
		return ok, err
	}
	if tool != "" {
		list, err := slowTools(ctx, b, q)
		return len(list.Tools) > 0, err
	}
	// A program without this library may pull the calls of the queue.
	info, ok, err := b.ConsumerInfo(ctx, b.WorkerConsumer(queue))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, nil
	}
	if err != nil || ok && info.NumWaiting > 0 {
		return err == nil, err
	}
	return false, anyAnswers(ctx, b)
}

// The operations on the tools of the workers. Both take a tools.OfferQuery.
var (
	ListOffers = Define("listTools", "tools.ls", "List the tools of the workers.", listOffers)
	ShowOffers = Define("showTool", "tools.show", "Describe one tool.", showOffers)
)

// listOffers lists tools, without their schemas if these do not fit into a message.
func listOffers(ctx context.Context, env Env, q tools.OfferQuery) (ToolList, error) {
	q.Brief = false
	list, err := ListTools(ctx, env.Bus, q)
	if err != nil {
		return list, err
	}
	body, err := bus.Encode(list)
	if len(body)+len(list.Text())*2 > int(env.Bus.Conn().MaxPayload()) {
		for i := range list.Tools {
			list.Tools[i].Parameters = nil
		}
	}
	return list, err
}

func showOffers(ctx context.Context, env Env, q tools.OfferQuery) (ToolList, error) {
	if q.Tool == "" {
		return ToolList{}, tools.Errorf(tools.CodeInvalidArguments, "the request names no tool; set \"tool\" to its name")
	}
	q.Brief = false
	list, err := ListTools(ctx, env.Bus, q)
	if err == nil && len(list.Tools) == 0 {
		all, _ := ListTools(ctx, env.Bus, tools.OfferQuery{Queue: q.Queue}) // only for the hint
		return ToolList{}, tools.Errorf(tools.CodeNotFound, "no worker offers the tool %q%s", tools.Excerpt(q.Tool, 80), tools.DidYouMean(q.Tool, all.Names()))
	}
	list.detailed = true
	return list, err
}
