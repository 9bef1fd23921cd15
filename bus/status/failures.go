package status

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/tools/trouble"
)

// failing says what fails, by kind.
var failing = map[trouble.Kind]string{
	trouble.Store:        "The artifact store of the worker WORKER fails",
	trouble.StoreFull:    "The artifact store of the worker WORKER is full, and results are cut to what fits",
	trouble.Replaced:     "The artifact store of the worker WORKER was replaced",
	trouble.Directory:    "The data directory of the worker WORKER is gone",
	trouble.Workspace:    "The tools of the worker WORKER do not see the files of its workspace",
	trouble.Disk:         "The server of the worker WORKER has no space",
	trouble.OpenFiles:    "The limit of open files of the worker WORKER is low",
	trouble.Streams:      "The worker WORKER cannot use the streams",
	trouble.Consumer:     "The worker WORKER cannot read from the consumer NAME",
	trouble.Permission:   "The NATS server refuses the user of the worker WORKER a permission",
	trouble.Schedules:    "The worker WORKER cannot check the schedules",
	trouble.Heartbeat:    "The worker WORKER cannot update the schedule of the heartbeat",
	trouble.Model:        "The model NAME fails",
	trouble.ModelRefused: "The provider of the model NAME refuses requests, or answers with something else",
	trouble.Channel:      "The channel NAME fails",
	trouble.Receiver:     "The worker WORKER cannot receive the messages of the channel NAME",
	trouble.MCPServer:    "The MCP server NAME of the worker WORKER fails",
	trouble.MCPCall:      "The MCP server NAME of the worker WORKER does not answer calls as it should",
	trouble.RemoteTool:   "The remote tool NAME fails",
}

// OfFailure returns the problem that a worker reports.
func OfFailure(worker string, f trouble.Failure) Problem {
	what := failing[f.Kind]
	if what == "" { // a worker of a later version
		what = "The worker WORKER reports " + string(f.Kind) + " NAME"
	}
	what = strings.NewReplacer("WORKER", worker, "NAME", strconv.Quote(f.Name)).Replace(what)
	return Problem{
		Code: string(f.Kind), Name: f.Name, Since: f.Since,
		Text: fmt.Sprintf("%s, since %s: %s.", what, f.Since.Format(time.DateTime+" UTC"), strings.TrimSuffix(f.Error, ".")),
	}
}

// failures returns what the workers report. What is not about one of them is shown once, though several
// report it. streamsNamed says that the status has named what is wrong with the streams.
func (s *Status) failures(streamsNamed bool) (problems []Problem) {
	for _, w := range s.Workers {
		for _, f := range w.failures {
			shared := !strings.Contains(failing[f.Kind], "WORKER")
			known := slices.ContainsFunc(problems, func(p Problem) bool { return shared && p.Code == string(f.Kind) && p.Name == f.Name })
			follows := f.Kind.NeedsStreams() || f.Kind == trouble.Store && strings.HasPrefix(w.store, "object:")
			if !known && !(streamsNamed && follows) {
				problems = append(problems, OfFailure(w.Name, f))
			}
		}
	}
	return problems
}
