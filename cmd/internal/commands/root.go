package commands

import (
	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/process"
)

const rootHelp = `Stevedore runs the tools of LLM agents in worker processes on a NATS bus. It moves big
tool results out of the prompt, and the model reads back the parts that it needs.

  stevedore demo                        show the main features on the files of this directory
  stevedore up                          run a NATS server, a worker, the notifier and the heartbeat
  stevedore call read_file path=go.mod  submit a call and wait for its result
  stevedore tools ls                    list the tools that the workers offer
  stevedore artifacts ls                list the offloaded results
  stevedore console                     serve a web page that shows all of this
  stevedore agent "say hello"           send a prompt to an agent (start the worker with --model)

To use another NATS server, add --server or --context to the commands that use the bus,
and run "stevedore serve" instead of "stevedore up".`

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:     "stevedore",
		Short:   "Run the tools of LLM agents on a NATS bus and keep big results out of the prompt",
		Long:    rootHelp,
		Version: cli.ReadVersion().Version,
	}
	cli.AddConfigFlag(root)
	cli.Group(root, "Start", newUpCommand(), newServeCommand(), newConsoleCommand(), newDemoCommand())
	cli.Group(root, "Call", newCallCommand(), newAgentCommand(), newToolsCommand(), newTasksCommand(), newArtifactsCommand())
	cli.Group(root, "Look", newStatusCommand(), newDoctorCommand(), newHealthCommand(), newSessionsCommand(), newUsageCommand())
	cli.Group(root, "Operate", newProvisionCommand(), newBackupCommand(), newRestoreCommand(), newCronCommand(), newDeadCommand(),
		newApprovalsCommand(), newChannelsCommand(), newMemoryCommand())
	cli.Group(root, "Hosts", newMCPCommand(), newRunCommand(), newReadCommand(), newHookCommand(), newOffloadCommand())
	root.AddCommand(newSchemaCommand(), cli.NewVersionCommand("stevedore"))
	root.AddCommand(process.NewHelperCommand())
	cli.AddHelp(root)
	return root
}
