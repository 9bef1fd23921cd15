package commands

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/approvals"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/tools"
)

const approvalsHelp = `List and answer the calls that wait for an approval. The flag --ask of "stevedore up" and
"stevedore serve" says which calls need one. Such a call waits without a worker. A "no"
becomes an error result that the model sees; so does the lack of an answer before the
deadline. The first answer counts. A TOOL of --ask may contain *, and a PATTERN is a regular
expression that is searched in each argument; repeat the flag for more.

  stevedore up --ask 'shell,write_file' --model SPEC
  stevedore up --ask 'shell:rm' --ask 'github_*'    only some calls
  stevedore approvals ls
  stevedore approvals yes ID
  stevedore approvals no ID --reason "use the trash instead"`

type approvalOptions struct {
	client.Options
	reason string
}

func newApprovalsCommand() *cobra.Command {
	o := new(approvalOptions)
	cmd := o.Group("approvals", "List and answer the calls that wait for an approval", approvalsHelp, "approval")
	cmd.PersistentFlags().StringVar(&o.Session, "session", "", "`SESSION` of the calls; default all sessions")
	answer := func(use, short string, op *rpc.Op[rpc.ApprovalRequest, rpc.ApprovalAnswer]) *cobra.Command {
		cmd := o.Command(use, short, func(ctx context.Context, b *bus.Bus, cmd *cobra.Command, args []string) error {
			return o.answer(ctx, b, args[0], op, cmd)
		})
		cmd.Flags().StringVar(&o.reason, "reason", "", "`TEXT` for the model")
		return cmd
	}
	cmd.AddCommand(
		o.Command("ls", "List the calls that wait for an approval", o.list),
		answer("yes ID", "Let a call run", rpc.Approve),
		answer("no ID", "Reject a call", rpc.Deny),
	)
	o.Complete(client.Listed(rpc.ListApprovals, func(l rpc.ApprovalList) []approvals.Approval { return l.Approvals },
		func(a approvals.Approval) string { return a.ID }), cmd.Commands()...)
	o.CompleteSession(cmd)
	return cmd
}

// waiting returns the approvals of the session, or of all sessions.
func (o *approvalOptions) waiting(ctx context.Context, b *bus.Bus) (client.Answer[rpc.ApprovalList], error) {
	if o.Session == "" {
		return client.Ask(ctx, &o.Options, b, rpc.ListAllApprovals, struct{}{})
	}
	return client.Ask(ctx, &o.Options, b, rpc.ListApprovals, rpc.ApprovalRequest{})
}

func (o *approvalOptions) list(ctx context.Context, b *bus.Bus, cmd *cobra.Command, _ []string) error {
	answer, err := o.waiting(ctx, b)
	if err != nil {
		return err
	}
	return answer.Print(&o.Options, cmd, printApprovals)
}

func printApprovals(cmd *cobra.Command, list rpc.ApprovalList) error {
	out := cmd.OutOrStdout()
	if len(list.Approvals) == 0 {
		_, err := fmt.Fprintln(out, list.Text())
		return err
	}
	for _, a := range list.Approvals {
		err := cli.Line(out, "%s (session %s): %s, asked %s ago, until %s", a.ID, a.Session, a.Tool,
			time.Since(a.AskedAt).Round(time.Second), a.Deadline.Local().Format(time.DateTime))
		if err == nil {
			_, err = fmt.Fprintf(out, "%s\n\n", cli.Indent(a.ArgsText(0, "")))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// answer answers the approval of a call. Without a session, the id must be unique.
func (o *approvalOptions) answer(ctx context.Context, b *bus.Bus, id string, op *rpc.Op[rpc.ApprovalRequest, rpc.ApprovalAnswer], cmd *cobra.Command) error {
	if o.Session == "" {
		list, err := o.waiting(ctx, b)
		if err != nil {
			return err
		}
		var found []approvals.Approval
		for _, a := range list.Out.Approvals {
			if a.ID == tools.TokenOf(id) {
				found = append(found, a)
			}
		}
		switch {
		case len(found) == 0 && list.Out.Omitted > 0:
			return cli.Exit(cli.ExitUsage, "%d calls wait, and no call %q is among the first; add --session", len(list.Out.Approvals)+list.Out.Omitted, id)
		case len(found) == 0:
			return cli.Exit(cli.ExitNotFound, "no call %q waits for an approval; see %s", id, o.Connection.Command("approvals", "ls"))
		case len(found) == 1:
			o.Session = found[0].Session
		default:
			return cli.Exit(cli.ExitUsage, "calls of %d sessions have the id %q; add --session", len(found), id)
		}
	}
	answer, err := client.Ask(ctx, &o.Options, b, op, rpc.ApprovalRequest{ID: id, By: "stevedore approvals", Reason: o.reason})
	if err != nil {
		return err
	}
	return answer.Print(&o.Options, cmd)
}
