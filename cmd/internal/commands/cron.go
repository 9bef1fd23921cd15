package commands

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/tools"
)

const cronHelp = `Manage jobs: calls that run once at a given time, at an interval or by a cron
expression. The NATS server stores and triggers them, and the workers run the calls.
Each job belongs to a session. Without --session, "ls" lists the jobs of all sessions,
"add" uses the session "default", and a NAME means the job of the session "default", or
else the only job with this name.

  stevedore cron add backup shell 'command=make backup' --every 6h
  stevedore cron add report shell command=./report --cron '30 9 * * 1-5' --time-zone Europe/Berlin
  stevedore cron add remind message 'content=Tea!' --at 20m --session s1
  stevedore cron ls
  stevedore cron get backup                show the job, its last run and its next runs
  stevedore cron update backup --every 3h
  stevedore cron disable backup
  stevedore cron enable backup
  stevedore cron rm backup
  stevedore cron next --cron '0 9 1 * *' --time-zone Asia/Shanghai`

type cronOptions struct {
	client.Options
	request cron.Request
	overlap bool
	count   int
}

func newCronCommand() *cobra.Command {
	o := new(cronOptions)
	cmd := &cobra.Command{
		Use:   "cron",
		Short: "Add, list and change scheduled jobs",
		Long:  cronHelp,
	}
	o.AddFlags(cmd)
	cmd.PersistentFlags().StringVar(&o.Session, "session", "", "`SESSION` of the jobs; default for add the session default, otherwise all sessions")

	add := o.command(cron.ActionAdd, "add NAME TOOL [ARGS]", "Add a job; ARGS as for stevedore call")
	update := o.command(cron.ActionUpdate, "update NAME [TOOL [ARGS]]", "Change a job; settings that are not given stay")
	for _, c := range []*cobra.Command{add, update} {
		o.addTimes(c)
		c.Flags().StringVar(&o.request.At, "at", "", "`TIME` to run once, such as 2026-11-21T09:00:00+01:00, or a duration from now, such as 20m")
		c.Flags().StringVar(&o.request.Queue, "queue", "", "`QUEUE` of the calls; default "+bus.DefaultQueue)
		c.Flags().StringVar(&o.request.Channel, "channel", "", "`CHANNEL` that delivers the results to the user")
		c.Flags().StringVar(&o.request.ChatID, "chat-id", "", "`CHAT` within the channel")
		c.Flags().StringVar(&o.request.Timeout, "run-timeout", "", "`TIME` after which a run times out, such as 10m; default 24h")
		c.Flags().BoolVar(&o.overlap, "overlap", false, "start a run although the previous one has not ended")
	}
	list := o.command(cron.ActionList, "ls", "List the jobs")
	get := o.command(cron.ActionGet, "get NAME", "Show a job, its last run and its next runs")
	remove := o.command(cron.ActionRemove, "rm NAME", "Remove a job; its current run continues")
	addPage(list, &o.request.Limit, "sorted by name; default all")
	list.Flags().StringVar(&o.request.After, "after", "", "print only those after this `NAME`")
	list.Aliases, get.Aliases, remove.Aliases = []string{"list"}, []string{"show"}, []string{"remove"}
	cmd.AddCommand(
		add, list, get, update, remove,
		o.command(cron.ActionEnable, "enable NAME", "Enable a job"),
		o.command(cron.ActionDisable, "disable NAME", "Disable a job without removing it"),
		o.next(),
	)
	for _, c := range cmd.Commands() {
		if c != add {
			o.Complete(o.jobNames, c)
		}
	}
	o.CompleteSession(cmd)
	return cmd
}

// jobNames are the names of the jobs of the session, or of all.
func (o *cronOptions) jobNames(ctx context.Context, _ *client.Options, b *bus.Bus) (names []string, err error) {
	answer, err := cron.New(b).Do(ctx, cron.Caller{Session: o.Session, Operator: o.Session == ""}, "", cron.Request{Action: cron.ActionList})
	for _, job := range answer.Jobs {
		names = append(names, job.Name)
	}
	return names, err
}

func (o *cronOptions) addTimes(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.request.Every, "every", "", "`INTERVAL` between runs, such as 30m")
	cmd.Flags().StringVar(&o.request.Cron, "cron", "", "`EXPRESSION` of 5 fields, or 6 with seconds first, such as '30 9 * * 1-5'")
	cmd.Flags().StringVar(&o.request.TimeZone, "time-zone", "", "`ZONE` of the times, such as Europe/Berlin; default UTC")
}

func (o *cronOptions) command(action, use, short string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.request.Action = action
			if cmd.Flags().Changed("overlap") {
				o.request.Overlap = &o.overlap
			}
			if err := o.takeArgs(args, cmd.InOrStdin()); err != nil {
				return &cli.Error{Code: cli.ExitUsage, Err: err}
			}
			return o.with(cmd, func(ctx context.Context, b *bus.Bus, by cron.Caller) error {
				warnings := []string{o.missingChannel(ctx, b)}
				o.request.Check = func(ctx context.Context, j *cron.Job) error {
					call := tools.Call{Tool: j.Tool, Args: j.Args}
					warning, err := client.CheckTool(ctx, b, &o.Connection, cmp.Or(j.Queue, bus.DefaultQueue), &call)
					j.Args = call.Args
					warnings = append(warnings[:1], warning)
					return err
				}
				answer, err := cron.New(b).Do(ctx, by, "", o.request)
				if err != nil {
					return o.exit(err)
				}
				if err := o.print(cmd, answer); err != nil {
					return err
				}
				for _, warning := range warnings {
					if warning != "" {
						fmt.Fprintf(cmd.ErrOrStderr(), "stevedore: %s\n", warning)
					}
				}
				return nil
			})
		},
	}
}

// missingChannel returns a warning if no worker delivers to the job's channel, whose
// name may be misspelt. It returns "" otherwise, or if it cannot find out.
func (o *cronOptions) missingChannel(ctx context.Context, b *bus.Bus) string {
	name := o.request.Channel
	if name == "" || name == tools.LastChannel {
		return ""
	}
	if _, served, err := b.ConsumerInfo(ctx, b.ChannelConsumer(tools.Token(name))); err != nil || served {
		return ""
	}
	return fmt.Sprintf("no worker delivers to channel %q now; notifications of the job go to the default channel until you start a "+
		"worker with this --channel", tools.Excerpt(name, 80))
}

// takeArgs sets the name, the tool and its arguments from the command line.
func (o *cronOptions) takeArgs(args []string, stdin io.Reader) error {
	if len(args) > 0 {
		o.request.Name = args[0]
	}
	if len(args) > 1 {
		o.request.Tool = args[1]
		if strings.ContainsAny(args[1], "={") {
			return fmt.Errorf("name the tool before its arguments: %s", o.Connection.Command("cron", o.request.Action, args[0], "TOOL", args[1]))
		}
	}
	if len(args) < 3 {
		return nil
	}
	data, err := parseArgs(args[2:], stdin)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, &o.request.Args)
}

func (o *cronOptions) with(cmd *cobra.Command, do func(context.Context, *bus.Bus, cron.Caller) error) error {
	return o.With(cmd, func(ctx context.Context, b *bus.Bus) error {
		session, err := agents.NameOf(ctx, b, o.Session)
		if err != nil {
			return err
		}
		return do(ctx, b, cron.Caller{Session: session, Operator: session == ""})
	})
}

func (o *cronOptions) exit(err error) error {
	switch {
	case errors.Is(err, cron.ErrExists):
		command := []string{"cron", cron.ActionUpdate, o.request.Name}
		if o.Session != "" {
			command = append(command, "--session", o.Session)
		}
		return cli.Exit(cli.ExitUsage, "%w: %s", err, o.Connection.Command(command...))
	case tools.CodeOf(err) == tools.CodeInvalidArguments:
		return cli.Exit(cli.ExitUsage, "%s", strings.ReplaceAll(err.Error(), "at, every and cron", "--at, --every and --cron"))
	}
	return err
}

func (o *cronOptions) print(cmd *cobra.Command, answer cron.Answer) error {
	body, err := bus.Encode(answer)
	if err != nil {
		return err
	}
	return client.Answer[cron.Answer]{Out: answer, Body: body}.Print(&o.Options, cmd, printJobs)
}

// printJobs prints a list of jobs, or what was done to one.
func printJobs(cmd *cobra.Command, answer cron.Answer) error {
	columns := []string{"name", "session", "when", "calls", "next", "last", "outcome"}
	return client.PrintTable(cmd.OutOrStdout(), answer.Jobs, answer.Text(), columns, func(e cron.Entry) []any {
		name, when, next, last, outcome := e.Name, any(e.When()), any(e.Next), time.Time{}, "-"
		if e.Kind != "" {
			name += " (" + e.Kind + ")"
		}
		if idle := e.Idle(); idle != "" {
			next = idle
		}
		if !e.At.IsZero() {
			when = e.At
		}
		if e.LastRun != nil {
			last, outcome = e.LastRun.Due, e.LastRun.Text()
		}
		return []any{name, e.Session, when, e.CallText(), next, last, outcome}
	})
}

// next returns the command that previews the runs of a job or of a schedule.
func (o *cronOptions) next() *cobra.Command {
	cmd := &cobra.Command{
		Use: "next [NAME]", Short: "Preview the next runs of a job, or of --cron or --every",
		RunE: func(cmd *cobra.Command, args []string) error {
			j := cron.Job{Cron: o.request.Cron, TimeZone: o.request.TimeZone}
			given := o.request.Cron != "" || o.request.Every != ""
			switch {
			case given == (len(args) == 1):
				return cli.Exit(cli.ExitUsage, "name a job, or set --cron or --every")
			case o.count < 1 || o.count > 1000:
				return cli.Exit(cli.ExitUsage, "-n %d: want 1 to 1000", o.count)
			case !given:
				return o.with(cmd, func(ctx context.Context, b *bus.Bus, by cron.Caller) error {
					e, err := cron.New(b).Get(ctx, by, args[0])
					if err != nil {
						return o.exit(err)
					}
					return o.printTimes(cmd.OutOrStdout(), e.TimeZone, e.Upcoming(o.count))
				})
			}
			if o.request.Every != "" {
				var err error
				if j.Every, err = time.ParseDuration(o.request.Every); err != nil {
					return cli.Exit(cli.ExitUsage, "--every %q: want a duration such as 30m", o.request.Every)
				}
			}
			if err := j.ValidateTimes(); err != nil {
				return &cli.Error{Code: cli.ExitUsage, Err: err}
			}
			return o.printTimes(cmd.OutOrStdout(), j.TimeZone, j.DueAfter(time.Now(), o.count))
		},
	}
	o.addTimes(cmd)
	cmd.Flags().IntVarP(&o.count, "count", "n", 5, "`NUMBER` of runs")
	return cmd
}

func (o *cronOptions) printTimes(out io.Writer, zone string, times []time.Time) error {
	if o.JSON {
		for _, t := range times {
			if err := cli.JSON(out, map[string]time.Time{"at": t}); err != nil {
				return err
			}
		}
		return nil
	}
	loc, err := time.LoadLocation(cmp.Or(zone, "UTC"))
	if err != nil {
		return err
	}
	for _, t := range times {
		if _, err := fmt.Fprintln(out, t.In(loc).Format("Mon "+time.RFC3339)); err != nil {
			return err
		}
	}
	if len(times) == 0 {
		_, err = fmt.Fprintln(out, "No runs are scheduled.")
	}
	return err
}
