package process

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/jq"
	"github.com/stevedore-bus/stevedore/offload/tables/sqlite"
	"github.com/stevedore-bus/stevedore/tools/builtin"
	"github.com/stevedore-bus/stevedore/tools/limited"
)

// helperCommand is the hidden command that a worker starts as a process with little memory and
// time: for each jq and SQL query, each picture, and each page of web_fetch.
const helperCommand = "helper"

// NewHelperCommand returns the hidden command. Its argument is the name of a kind of work.
func NewHelperCommand() *cobra.Command {
	work := map[string]func(ctx context.Context, stdin io.Reader, stdout io.Writer) error{
		limited.JQ.Name: jq.Serve, limited.SQL.Name: sqlite.Serve, limited.Picture.Name: offload.ServePicture, limited.HTML.Name: builtin.ServeMarkdown,
	}
	c := &cobra.Command{Use: helperCommand, Short: "Do one piece of work for a worker", Hidden: true}
	for name, serve := range work {
		c.AddCommand(&cobra.Command{
			Use: name, Args: cobra.NoArgs, Hidden: true,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
			},
		})
	}
	return c
}

// NewPool returns the pool of this process, whose helpers run this program. If its path is unknown,
// the work is done in this process.
func NewPool() *limited.Pool {
	path, err := os.Executable()
	if err != nil {
		return limited.NewPool()
	}
	return limited.NewPool(path, helperCommand)
}
