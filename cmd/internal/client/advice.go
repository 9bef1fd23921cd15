package client

import (
	"strings"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
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
		return cli.StreamAdvice(p.Name)
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
