package client

import (
	"context"
	"slices"
	"sync"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

// ReadStatus reads the state of the installation, with what to do about its problems.
func ReadStatus(ctx context.Context, b *bus.Bus, c *cli.Connection) status.Status {
	var (
		refusals sync.WaitGroup
		refused  []status.Problem
	)
	refusals.Go(func() { refused = status.ReadRefusals(ctx, b) })
	s := status.Read(ctx, b)
	refusals.Wait()
	s.Problems = append(s.Problems, refused...)
	Advise(s.Problems, c)
	return s
}

// Advise adds to each problem what to do about it, with the commands of somebody who has the connection. The
// packages that find problems know no commands and flags; they are only here.
func Advise(problems []status.Problem, c *cli.Connection) {
	unserved := slices.ContainsFunc(problems, func(p status.Problem) bool {
		return p.Code == status.QueueWithoutWorker || p.Code == status.NoWorker
	})
	for i, p := range problems {
		problems[i].Advice = c.Remedy(adviceFor(p, unserved, c))
	}
}

// adviceFor returns what to do, and the arguments of the command that does it or begins with it. unserved is
// set if calls wait because no worker serves their queue.
func adviceFor(p status.Problem, unserved bool, c *cli.Connection) (advice string, command []string) {
	switch p.Code {
	case status.ClockSkew:
		return "Synchronise the clocks of both with NTP: deadlines, schedules and expiry times come from both.", nil
	case status.StreamMissing:
		return cli.MissingAdvice, []string{"provision"}
	case status.StreamAltered, status.StreamSealed, status.StreamExpiring:
		return cli.AlteredAdvice(p.Code != status.StreamAltered)
	case status.ClusterWithoutLeader, status.StreamWithoutLeader:
		return cli.LeaderAdvice, nil
	case status.ReplicaOffline:
		return "Start it again, also with an empty directory: the others replicate to it.", nil
	case status.WritesRefused:
		return "Read the server's log. If its disk is full, make space or enlarge the volume; then restart the server, unless it is that " +
			"of \"stevedore up\", which restarts itself.", nil
	case string(trouble.Directory):
		return "Stop that process, put its directory or a backup in the place, and start it again: what it accepts now is lost when it ends.", nil
	case string(trouble.Workspace):
		return "Put the directory of before back, or make it and restart the worker.", nil
	case string(trouble.Disk):
		return "Make space or enlarge the volume; the server then goes on.", nil
	case string(trouble.OpenFiles):
		return cli.OpenFilesAdvice, nil
	case string(trouble.Store):
		return "Bring the directory or the bucket of --store back, or make an empty directory and restart the worker. Results wait on the bus for some minutes.", nil
	case string(trouble.StoreFull):
		return "Make space on its disk or the server, or raise --artifact-quota of the worker. To remove artifacts:", []string{"artifacts", "ls", "--all"}
	case string(trouble.Replaced):
		return "Put the directory of before back, for example mount its volume; or restart the worker to go on with the new one.", nil
	case string(trouble.Streams), string(trouble.Consumer):
		return "Start the servers that are down, if one is; otherwise read the error and the log of the server. The worker tries again.", nil
	case string(trouble.Permission):
		return cli.PermissionAdvice(p.Name), nil
	case string(trouble.Schedules), string(trouble.Heartbeat):
		return "The worker tries again. If that lasts, look at its permissions:", []string{"doctor"}
	case string(trouble.Model):
		return "Runs wait and go on when the provider answers. With --model a,b the model b answers meanwhile.", nil
	case string(trouble.ModelRefused):
		return "Runs fail until the key, the credit of its account, the name of the model or the address of the provider is right. " +
			"A key is in the variable or the file of --api-key-file; restart the worker after a change. Then send what failed again.", nil
	case string(trouble.Receiver):
		return "Correct the settings of the channel, or of the program of its bridge; it is tried again.", nil
	case string(trouble.MCPServer):
		return "Correct --mcp " + p.Name + "=..., or start that server; the worker tries again.", nil
	case string(trouble.MCPCall):
		return "If a tool is not just slow, cancel the call (stevedore tasks cancel ID --session SESSION): a server that hangs is then started again. " +
			"Otherwise correct the server.", nil
	case string(trouble.RemoteTool):
		return "Start the process that serves the tool; its calls fail until then.", nil
	case string(trouble.Channel):
		return "Correct its settings or its receiver; failed notifications are sent again. To try it:",
			[]string{"call", "message", "content=test", "--channel", p.Name}
	case status.StreamNearlyFull:
		if unserved && p.Name == bus.Calls {
			return "Start a worker of the queue that has none; its calls fill the stream.", nil
		}
		return c.FullAdvice(p.Name, p.MaxBytes)
	case status.QueueWithoutWorker:
		return start(c, p.Name, "")
	case status.NoWorker:
		return start(c, bus.DefaultQueue, "")
	case status.TicksWithoutWorker:
		return start(c, bus.DefaultQueue, " without --no-ticks")
	case status.NotificationsWaiting:
		if advice, command = start(c, bus.DefaultQueue, " with the channels, without --no-notify"); c.External() {
			command = append(command, "--channel", "NAME=SPEC")
		}
		return advice, command
	case status.StoresDiffer:
		return "Start all workers with the same --store: a bucket, or a directory that all of them see.", nil
	case status.ChannelWithoutWorker:
		if p.Default {
			return "Start a worker with --channel " + p.Name + "=SPEC, or give the workers that name it another --default-channel.", nil
		}
		return "Start a worker with --channel " + p.Name + "=SPEC. " + RemoveChannelAdvice, []string{"channels", "rm", p.Name}
	case status.BridgeSilent:
		return "Start that program again, or read its log: one that runs has lost its connection, or hangs.", nil
	case status.BridgeRepeats:
		return "Read its log: either the network refuses what it sends, or it does not acknowledge what it has sent, which then arrives twice.", nil
	case status.ApprovalWaiting:
		return "Answer them:", []string{"approvals", "ls"}
	case status.ConsumerPaused:
		return "Resume it: nats consumer resume " + p.Name, nil
	case status.ConsumerAltered:
		return "Restart a worker that uses it, and do not edit it again: the worker gives the consumer its settings back, and no call is lost.", nil
	case status.OneLeader:
		return "Let another server lead a part of them: nats stream cluster step-down STREAM", nil
	case status.RunsWaiting:
		return "They go on when the provider answers:", []string{"tasks", "ls"}
	case status.RecordDamaged:
		return "Save it with \"nats kv get " + p.Name + " --raw\", and look at it. If it is of no use, submit the call again, with the same id, after you " +
			"remove the record: nats kv del " + p.Name, nil
	case status.JobFailing:
		if p.Name == "" {
			return "Look at all jobs:", []string{"cron", "ls"}
		}
		return "Look at it, and correct, disable or remove it:", []string{"cron", "get", p.Name}
	case status.DeadLetters:
		return "Read their reasons, then retry or remove them:", []string{"dead", "ls"}
	}
	return "", nil
}

// RemoveChannelAdvice says what else to do about a channel that no process serves, up to the command.
const RemoveChannelAdvice = "If the channel is gone or has another name, give the default channel what waits:"

// StartCommand returns the command line that starts a worker of a queue.
func StartCommand(c *cli.Connection, queue string) string {
	_, command := start(c, queue, "")
	return c.Command(command...)
}

// start returns the advice to start a worker of a queue, and the arguments that do it. The calls of agents need a
// worker with a model, which also serves their queues. Beside "stevedore up", a second worker of its queues would
// take calls of tools in a workspace of its own, so that up itself is started again.
func start(c *cli.Connection, queue, how string) (advice string, command []string) {
	forAgents := agents.IsQueue(queue)
	if !forAgents && queue != bus.DefaultQueue {
		return "Start a worker:", []string{"serve", "--queue", queue}
	}
	advice, command = "Start a worker"+how+":", []string{"serve"}
	if !c.External() {
		advice, command = "Restart the worker"+how+":", []string{"up"}
	}
	if forAgents {
		command = append(command, "--model", "SPEC")
	}
	return advice, command
}
