package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

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
}

// statusAtOnce is how many tenants are read at once.
const statusAtOnce = 16

// printTenants prints the state of each tenant of a directory, and returns how many need attention.
func printTenants(cmd *cobra.Command, dir string, asJSON bool) (failing int, err error) {
	var all []*tenantStatus
	var group errgroup.Group
	group.SetLimit(statusAtOnce)
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
			defer b.Close()
			read := client.ReadStatus(cmd.Context(), b)
			s.Status = &read
			return nil
		})
	})
	_ = group.Wait() // each error is that of its tenant
	if err != nil {
		return 0, err
	}
	table := cli.NewTable("tenant", "waiting", "running", "workers", "dead letters", "fill", "needs attention")
	for _, s := range all {
		row, problem := s.row()
		if problem != "" {
			failing++
		}
		table.Row(append(row, dash(tools.Excerpt(tools.OneLine(problem), 200)))...)
		if asJSON {
			if err := cli.JSON(cmd.OutOrStdout(), s); err != nil {
				return failing, err
			}
		}
	}
	if asJSON {
		return failing, nil
	}
	return failing, table.Print(cmd.OutOrStdout(), "No tenants.")
}

// row returns the cells of the tenant, and its first problem.
func (s *tenantStatus) row() (cells []any, problem string) {
	v := s.Status
	if v == nil {
		return []any{s.Tenant, "-", "-", "-", "-", "-"}, s.Error
	}
	waiting, running, fill := uint64(0), 0, 0.0
	for _, q := range v.Queues {
		waiting, running = waiting+q.Waiting, running+q.Running
	}
	for _, stream := range v.Streams {
		fill = max(fill, stream.Fill)
	}
	if len(v.Problems) > 0 {
		problem = v.Problems[0].String()
	}
	return []any{s.Tenant, waiting, running, len(v.Workers), v.DeadLetters, fmt.Sprintf("%.0f %%", 100*fill)}, cmp.Or(problem, strings.Join(v.Errors, "; "))
}
