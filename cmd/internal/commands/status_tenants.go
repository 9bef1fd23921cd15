package commands

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/cmd/internal/process"
	"github.com/stevedore-bus/stevedore/tools"
)

// tenantStatus is what status shows of a tenant. Error is why its state cannot be read.
type tenantStatus struct {
	Tenant string         `json:"tenant"`
	Error  string         `json:"error,omitempty"`
	Status *status.Status `json:"status,omitempty"`

	bus   *bus.Bus
	other string // tenant with the same account, if any
}

// statusAtOnce is how many tenants are read at once.
const statusAtOnce = 16

// printTenants prints the state of each tenant of a directory, and returns how many need attention.
func printTenants(cmd *cobra.Command, dir string, asJSON bool) (failing int, err error) {
	var all []*tenantStatus
	var group errgroup.Group
	group.SetLimit(statusAtOnce)
	accounts := process.NewAccounts()
	err = process.EachTenant(dir, cmd.Flags(), func(name string, c *cli.Connection, err error) {
		s := &tenantStatus{Tenant: name}
		all = append(all, s)
		if err != nil {
			s.Error = err.Error()
			return
		}
		group.Go(func() error {
			b, err := c.Connect(cmd.Context(), "stevedore status", zerolog.Nop())
			if err != nil {
				s.Error = err.Error()
				return nil
			}
			s.bus = b // stays open, so that each copy of its credential is found
			if _, err := accounts.Claim(cmd.Context(), b, name); err != nil {
				s.Error = err.Error()
				if shared, ok := errors.AsType[*process.SharedAccountError](err); ok {
					s.other = shared.Other
				}
			}
			read := client.ReadStatus(cmd.Context(), b, c)
			for i, p := range read.Problems {
				setting := settingFor(p)
				switch {
				case setting == "": // what a worker of its own does, which would know none of the tenant's settings
				case len(read.Workers) == 0:
					read.Problems[i].Advice = fmt.Sprintf("Start \"stevedore serve --tenants %s\"; if it runs, its log says why this tenant "+
						"has not started.", cli.ShellWord(dir))
				default:
					read.Problems[i].Advice = fmt.Sprintf("Correct the setting %q in %s, which replaces that of the process; the tenant then starts again.",
						setting, filepath.Join(dir, name+".yaml"))
					if p.Code == status.ChannelWithoutWorker && !p.Default {
						read.Problems[i].Advice += " " + client.RemoveChannelAdvice + " " + c.Command("channels", "rm", p.Name)
					}
				}
			}
			s.Status = &read
			return nil
		})
	})
	_ = group.Wait() // each error is that of its tenant
	for _, s := range all {
		if s.bus != nil {
			s.bus.Close()
		}
		for _, o := range all {
			if o.Tenant == s.other { // nobody knows which one is the copy
				o.Error = (&process.SharedAccountError{Other: s.Tenant}).Error()
			}
		}
	}
	if err != nil {
		return 0, err
	}
	for _, s := range all {
		if len(s.problems()) > 0 {
			failing++
		}
	}
	return failing, listTenants(cmd.OutOrStdout(), all, asJSON)
}

// settingFor returns the setting of a tenant that lacks something if calls, ticks or notifications wait for a worker, otherwise "".
func settingFor(p status.Problem) string {
	switch p.Code {
	case status.QueueWithoutWorker:
		if agents.IsQueue(p.Name) {
			return "model"
		}
		return "queue"
	case status.NoWorker:
		return "queue"
	case status.TicksWithoutWorker:
		return "no-ticks"
	case status.ChannelWithoutWorker, status.NotificationsWaiting:
		return "channel"
	}
	return ""
}

// listTenants prints a line for each tenant, and then what their states leave out.
func listTenants(out io.Writer, all []*tenantStatus, asJSON bool) error {
	err := client.PrintList(asJSON, out, all, "No tenants.",
		[]string{"tenant", "waiting", "running", "workers", "dead letters", "fill", "needs attention"}, (*tenantStatus).row)
	for _, s := range all {
		if s.Status != nil && !asJSON {
			for _, note := range s.Status.Notes {
				_ = cli.Line(out, "%s: %s", s.Tenant, note) // printing the list fails, too
			}
		}
	}
	return err
}

// problems returns what needs attention, and what could not be read.
func (s *tenantStatus) problems() (all []string) {
	if s.Error != "" {
		all = append(all, s.Error)
	}
	if s.Status != nil {
		for _, p := range s.Status.Problems {
			all = append(all, p.String())
		}
		for _, e := range s.Status.Errors {
			all = append(all, "could not read the "+e)
		}
	}
	return all
}

// row returns the cells of the tenant. The last one has its first problem, and how many there are.
func (s *tenantStatus) row() []any {
	problem := "-"
	if all := s.problems(); len(all) > 0 {
		problem = tools.Excerpt(tools.OneLine(all[0]), 200)
		if len(all) > 1 {
			problem = fmt.Sprintf("1 of %d: %s", len(all), problem)
		}
	}
	v := s.Status
	if v == nil {
		return []any{s.Tenant, "-", "-", "-", "-", "-", problem}
	}
	waiting, running, fill := uint64(0), 0, 0.0
	for _, q := range v.Queues {
		waiting, running = waiting+q.Waiting, running+q.Running
	}
	for _, stream := range v.Streams {
		fill = max(fill, stream.Fill)
	}
	return []any{s.Tenant, waiting, running, len(v.Workers), v.DeadLetters, fmt.Sprintf("%.0f %%", 100*fill), problem}
}
