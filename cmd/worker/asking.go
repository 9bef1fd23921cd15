package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/tools"
)

// asking is what the commands share that ask a running worker about a session.
type asking struct {
	connection cli.Connection
	logging    cli.Logging
	session    string
	json       bool
}

func (o *asking) addFlags(cmd *cobra.Command, of string) {
	o.connection.AddFlags(cmd.PersistentFlags())
	o.logging.AddFlags(cmd.PersistentFlags())
	cmd.PersistentFlags().StringVar(&o.session, "session", tools.DefaultSession, "`SESSION` of the "+of)
	cmd.PersistentFlags().BoolVar(&o.json, "json", false, "print JSON")
}

// command makes a command that sends one request and prints its answer.
func (o *asking) command(use, short string, args int, group, function string, request func(args []string) (any, error)) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cli.Args(cobra.ExactArgs(args)),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := request(args)
			if err != nil {
				return &cli.Error{Code: cli.ExitUsage, Err: err}
			}
			return o.with(cmd, func(ctx context.Context, b *bus.Bus) error {
				body, err := o.ask(ctx, b, group, function, in)
				if err != nil {
					return err
				}
				return o.print(cmd.OutOrStdout(), body)
			})
		},
	}
}

// with connects.
func (o *asking) with(cmd *cobra.Command, do func(context.Context, *bus.Bus) error) error {
	log, err := o.logging.Logger(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	b, err := o.connection.Connect(cmd.Context(), "stevedore "+cmd.Name(), log)
	if err != nil {
		return err
	}
	defer b.Close()
	there, leave := b.WhileThere(cmd.Context())
	defer leave()
	err = do(there, b)
	if cause := gone(there, b); cause != nil && err != nil && !errors.Is(err, bus.ErrUnreachable) {
		return cause
	}
	return err
}

// answerPatience is how long a worker may take to answer.
const answerPatience = 40 * time.Second

var (
	errNobody = cli.Exit(cli.ExitUnreachable, "no worker answers; start one with \"worker up\" or \"worker serve\"")
	errLost   = fmt.Errorf("%w: the connection was lost before the answer came; try again", bus.ErrUnreachable)
)

// request sends a request to a subject of the workers' service.
func (o *asking) request(ctx context.Context, b *bus.Bus, subject string, in any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	body, err := rpc.Request(ctx, b, subject, in)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, errNobody
	case errors.Is(err, nats.ErrDisconnected):
		return nil, errLost
	case errors.Is(err, context.DeadlineExceeded):
		return nil, cli.Exit(cli.ExitPending, "no answer after %s", answerPatience)
	}
	return body, err
}

// ask sends a request to <prefix>.rpc.<group>.<session>.<function>.
func (o *asking) ask(ctx context.Context, b *bus.Bus, group, function string, in any) ([]byte, error) {
	body, err := o.request(ctx, b, b.RPC(group, tools.TokenOf(o.session), function), in)
	switch tools.CodeOf(err) {
	case tools.CodeNotFound, tools.CodeExpired:
		return nil, cli.Exit(cli.ExitNotFound, "%w; see worker %ss ls --session %s", err, group, tools.TokenOf(o.session))
	case tools.CodeInvalidArguments:
		return nil, cli.Exit(cli.ExitUsage, "%w", err)
	}
	return body, err
}

// print prints an answer: as it is with --json, else the text in it.
func (o *asking) print(out io.Writer, body []byte) error {
	if o.json {
		_, err := fmt.Fprintf(out, "%s\n", body)
		return err
	}
	var answer struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if answer.Text == "" { // not a text for models: the JSON, made readable
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, body, "", "  "); err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		answer.Text = pretty.String()
	}
	if !strings.HasSuffix(answer.Text, "\n") {
		answer.Text += "\n"
	}
	_, err := io.WriteString(out, cli.Printable(out, answer.Text))
	return err
}
