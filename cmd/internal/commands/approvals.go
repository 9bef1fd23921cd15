package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/cmd/internal/process"
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
	cmd := &cobra.Command{
		Use:     "approvals",
		Aliases: []string{"approval"},
		Short:   "List and answer the calls that wait for an approval",
		Long:    approvalsHelp,
	}
	o.AddFlags(cmd)
	cmd.PersistentFlags().StringVar(&o.Session, "session", "", "`SESSION` of the calls; default all sessions")
	answer := func(use, short, function string) *cobra.Command {
		cmd := o.Command(use, short, func(ctx context.Context, b *bus.Bus, cmd *cobra.Command, args []string) error {
			return o.answer(ctx, b, args[0], function, cmd.OutOrStdout())
		})
		cmd.Flags().StringVar(&o.reason, "reason", "", "`TEXT` for the model")
		return cmd
	}
	cmd.AddCommand(
		o.Command("ls", "List the calls that wait for an approval", o.list),
		answer("yes ID", "Let a call run", "yes"),
		answer("no ID", "Reject a call", "no"),
	)
	o.Complete(client.Listed("approval", "list", "approvals", "id"), cmd.Commands()...)
	o.CompleteSession(cmd)
	return cmd
}

// waiting returns the approvals of the session, or of all sessions.
func (o *approvalOptions) waiting(ctx context.Context, b *bus.Bus) (list rpc.ApprovalList, body []byte, err error) {
	if o.Session == "" {
		body, err = o.Request(ctx, b, b.RPC("approvals", "list"), struct{}{})
	} else {
		body, err = o.Ask(ctx, b, "approval", "list", struct{}{})
	}
	if err == nil {
		err = json.Unmarshal(body, &list)
	}
	return list, body, err
}

func (o *approvalOptions) list(ctx context.Context, b *bus.Bus, cmd *cobra.Command, _ []string) error {
	list, body, err := o.waiting(ctx, b)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if o.JSON {
		return o.Print(out, body)
	}
	if len(list.Approvals) == 0 {
		_, err := fmt.Fprintln(out, list.Text())
		return err
	}
	for _, a := range list.Approvals {
		_, err := fmt.Fprintf(out, "%s (session %s): %s, asked %s ago, until %s\n%s\n\n", a.ID, a.Session, cli.Printable(out, a.Tool),
			time.Since(a.AskedAt).Round(time.Second), a.Deadline.Local().Format(time.DateTime), process.ApprovalArgs(a))
		if err != nil {
			return err
		}
	}
	return nil
}

// answer answers the approval of a call. Without a session, the id must be unique.
func (o *approvalOptions) answer(ctx context.Context, b *bus.Bus, id, function string, out io.Writer) error {
	if o.Session == "" {
		list, _, err := o.waiting(ctx, b)
		if err != nil {
			return err
		}
		var found []task.Approval
		for _, a := range list.Approvals {
			if a.ID == tools.TokenOf(id) {
				found = append(found, a)
			}
		}
		switch len(found) {
		case 0:
			return cli.Exit(cli.ExitNotFound, "no call %q waits for an approval; see stevedore approvals ls", id)
		case 1:
			o.Session = found[0].Session
		default:
			return cli.Exit(cli.ExitUsage, "calls of %d sessions have the id %q; add --session", len(found), id)
		}
	}
	body, err := o.Ask(ctx, b, "approval", function, rpc.ApprovalRequest{ID: id, By: "stevedore approvals", Reason: o.reason})
	if err != nil {
		return err
	}
	return o.Print(out, body)
}
