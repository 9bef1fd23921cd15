package client

import (
	"strings"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/status"
)

// Advise adds to each problem what to do about it. The packages that find problems know no
// commands and flags; they are only here.
func Advise(problems []status.Problem) {
	for i, p := range problems {
		problems[i].Advice = adviceFor(p)
	}
}

func adviceFor(p status.Problem) string {
	switch p.Code {
	case status.StreamNearlyFull:
		return streamAdvice(p.Name)
	case status.QueueWithoutWorker:
		return "Start a worker: " + StartCommand(p.Name) + "."
	case status.NoWorker:
		return "Start one: " + StartCommand(bus.DefaultQueue) + "."
	case status.ChannelWithoutWorker:
		return "Start a worker with --channel " + p.Name + "=SPEC."
	case status.DeadLetters:
		return "Read their reasons, then retry or remove them: stevedore dead ls."
	}
	return ""
}

// streamAdvice says what makes room in a stream.
func streamAdvice(stream string) string {
	enlarge := "enlarge it: stevedore provision --update --max-bytes " + strings.ToLower(stream) + "=BYTES."
	switch stream {
	case bus.Results:
		return "It does not hold the results of --min-age. Shorten --min-age or --results-ttl, or " + enlarge
	case bus.Sessions:
		return "Remove conversations (stevedore sessions rm), shorten --sessions-ttl, or " + enlarge
	case bus.Outbox:
		return "Notifications wait for channels that do not accept them: see stevedore channels, or " + enlarge
	case bus.Dead:
		return "Retry or remove dead letters (stevedore dead), or " + enlarge
	}
	return "Calls arrive faster than workers finish them: start more workers, or " + enlarge
}

// StartCommand returns the command line that starts a worker of a queue. The calls of agents
// need a worker with a model, which also serves their queues.
func StartCommand(queue string) string {
	switch {
	case queue == bus.DefaultQueue:
		return "stevedore serve"
	case queue == bus.AgentQueue, strings.HasPrefix(queue, bus.AgentQueue+"-"):
		return "stevedore serve --model SPEC"
	}
	return "stevedore serve --queue " + queue
}
