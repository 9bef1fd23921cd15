package main

import (
	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/process"
)

const rootHelp = `Stevedore runs the tools of LLM agents as workers on a NATS bus, moves their big
results out of the prompt, and lets the model read them back piece by piece.

  worker demo                        see it work, on the files of this directory
  worker up                          bus, worker, notifier and heartbeat in one process
  worker call read_file path=go.mod  submit a call to it and wait for the result
  worker tools ls                    list the tools that workers offer
  worker artifacts ls                list what was offloaded
  worker agent "say hello"           speak to an agent; its worker needs a model

With --server or --context the same commands work against a NATS cluster:
"worker serve" there is one worker of many. Without a command, "up" runs.

` + cli.ExitCodesHelp

func newRoot() *cobra.Command {
	up := newUpCommand()
	root := &cobra.Command{
		Use:     "worker",
		Short:   "Run agent tools on a NATS bus and keep their big results out of the prompt",
		Long:    rootHelp,
		Version: process.ReadVersion().Version,
		Args:    cli.Args(cobra.NoArgs),
		RunE:    up.RunE,
	}
	cli.FlagsOf(root, up)
	cli.AddConfigFlag(root)
	root.AddCommand(up, newServeCommand(), newCallCommand(), newArtifactsCommand(), newTasksCommand(), newDeadCommand(), newChannelsCommand(), newDemoCommand(), newProvisionCommand(), newOffloadCommand())
	root.AddCommand(newToolsCommand(), newAgentCommand(), newSessionsCommand(), newCronCommand(), newVersionCommand(), process.NewJQCommand())
	cli.AddHelp(root)
	return root
}
