package client

import (
	"context"
	"strings"
	"sync"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

// ReadStatus reads the state of the installation, with what to do about its problems.
func ReadStatus(ctx context.Context, b *bus.Bus) status.Status {
	var (
		refusals sync.WaitGroup
		refused  []status.Problem
	)
	refusals.Go(func() { refused = status.ReadRefusals(ctx, b) })
	s := status.Read(ctx, b)
	refusals.Wait()
	s.Problems = append(s.Problems, refused...)
	Advise(s.Problems)
	return s
}

// Advise adds to each problem what to do about it. The packages that find problems know no
// commands and flags; they are only here.
func Advise(problems []status.Problem) {
	for i, p := range problems {
		problems[i].Advice = adviceFor(p)
	}
}

func adviceFor(p status.Problem) string {
	switch p.Code {
	case status.StreamMissing:
		return "Create what is missing: stevedore provision. Its contents are lost, unless you restore a backup."
	case status.ClusterWithoutLeader, status.StreamWithoutLeader:
		return cli.LeaderAdvice
	case status.ReplicaOffline:
		return "Start it again, also with an empty directory: the others replicate to it."
	case status.WritesRefused:
		return "Read the server's log. If its disk is full, make space or enlarge the volume; then restart the server, unless it is that " +
			"of \"stevedore up\", which restarts itself."
	case string(trouble.Disk):
		return "Make space or enlarge the volume; the server then goes on."
	case string(trouble.Store):
		return "Bring the directory or the bucket of --store back, or make an empty one. Results wait on the bus for some minutes."
	case string(trouble.Streams), string(trouble.Consumer):
		return "Read the error and the log of the server; the worker tries again."
	case string(trouble.Schedules), string(trouble.Heartbeat):
		return "The worker tries again. If that lasts, check its permissions: stevedore doctor."
	case string(trouble.Model):
		return "Runs wait and go on when the provider answers. With --model a,b the model b answers meanwhile."
	case string(trouble.Receiver):
		return "Correct the settings of the channel; the worker tries again."
	case string(trouble.MCPServer):
		return "Correct --mcp " + p.Name + "=..., or start that server; the worker tries again."
	case string(trouble.RemoteTool):
		return "Start the process that serves the tool; its calls fail until then."
	case status.ApprovalWaiting:
		return "Answer them: stevedore approvals ls."
	case status.OneLeader:
		return "Let another server lead a part of them: nats stream cluster step-down STREAM."
	case status.RunsWaiting:
		return "They go on when the provider answers: stevedore tasks ls."
	case string(trouble.Channel):
		return "Correct its settings or its receiver, and try it: stevedore channels test " + p.Name + ". Failed notifications are sent again."
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
		return "stevedore serve --model SPEC (or stevedore up --model SPEC)"
	}
	return "stevedore serve --queue " + queue
}
