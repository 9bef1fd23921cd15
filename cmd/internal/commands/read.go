package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/artifacts"
	"github.com/stevedore-bus/stevedore/cmd/internal/process"
	"github.com/stevedore-bus/stevedore/cmd/internal/savings"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/tables"
	"github.com/stevedore-bus/stevedore/tools"
)

const readHelp = `Read an output that "stevedore run" has stored, in pages of at most 15,000 characters. The
arguments are those of the tool read_result of "stevedore mcp wrap"; with --session, the
command reads its results too. Without ID, it lists what is stored.

  stevedore read ID --lines 10-40
  stevedore read ID --lines -20            the last lines
  stevedore read ID --grep 'FAIL|panic'
  stevedore read ID --jq '.items[].name'
  stevedore read ID --sql 'SELECT name, count(*) FROM t1 GROUP BY name'
  stevedore read ID --offset 15000`

// readArgs are the arguments of the tool read_result.
type readArgs struct {
	ID     string `json:"id,omitempty"`
	Lines  string `json:"lines,omitempty" flag:"lines" unit:"LINES" help:"LINES to read: 10-40, 10, or -20 for the last 20"`
	Grep   string `json:"grep,omitempty" flag:"grep" unit:"REGEXP" help:"REGEXP (RE2) of the lines to read"`
	JQ     string `json:"jq,omitempty" flag:"jq" unit:"QUERY" help:"QUERY on JSON, YAML, XML, NDJSON, CSV or TSV"`
	SQL    string `json:"sql,omitempty" flag:"sql" unit:"SELECT" help:"SELECT on CSV, TSV, JSON or NDJSON, as the table t1"`
	Offset int64  `json:"offset,omitempty" flag:"offset" unit:"CHARACTER" help:"first CHARACTER to read, from 0"`
	Cursor string `json:"cursor,omitempty" flag:"cursor" unit:"CURSOR" help:"CURSOR that an answer gave, to continue it"`
}

func newReadCommand() *cobra.Command {
	var o storedOutputs
	var in readArgs
	cmd := &cobra.Command{
		Use:   "read [ID]",
		Short: "Read an output that \"stevedore run\" has stored",
		Long:  readHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				in.ID = args[0]
			}
			return o.read(cmd.Context(), in, cmd.OutOrStdout())
		},
	}
	o.addFlags(cmd)
	cli.AddOptions(cmd.Flags(), &in)
	return cmd
}

func (o *storedOutputs) read(ctx context.Context, in readArgs, stdout io.Writer) (err error) {
	list := programName() + " read" + placeOf(o.Session, o.Connection.Data)
	if in.ID == "" && in != (readArgs{}) {
		return cli.Exit(cli.ExitUsage, "name the ID of an output; %q lists them", list)
	}
	if err := checkName(o.Session); err != nil {
		return err
	}
	store, closeStore, err := o.Store.OpenDisk(&o.Connection)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	databases := tables.NewCache("")
	defer func() { err = errors.Join(err, databases.Close()) }()
	reader := offload.NewReader(store, offload.ReaderConfig{Pool: process.NewPool(), SQLCache: databases})
	reading, err := artifacts.NewTools(reader, false)
	if err != nil {
		return err
	}
	args, _ := json.Marshal(in) // texts and numbers do not fail
	res := reading.Call(ctx, o.Session, artifacts.ReadResult, args)
	if res.IsError {
		code, text := cli.ExitUsage, reading.Text(res.ForLLM, nil, artifacts.CommandWay(list))
		if of := tools.CodeOf(res.Err); of == tools.CodeNotFound || of == tools.CodeExpired {
			code = cli.ExitNotFound
		}
		return cli.Exit(code, "%s", text)
	}
	text := res.ForLLM
	for _, repeated := range []string{" (knowledge_id: " + in.ID + ")", " in knowledge#" + in.ID} { // the caller has just written it
		text = strings.Replace(text, repeated, "", 1)
	}
	if rec, err := reader.Record(ctx, tools.Call{Session: o.Session}.SessionToken(), in.ID); err == nil {
		_ = savings.Add(o.Connection.Data, savings.Line{Host: rec.Metadata["agent_id"], Tool: rec.Metadata["tool_name"], Read: int64(utf8.RuneCountInString(text))}) // the page is worth more
	}
	_, err = fmt.Fprintln(stdout, text)
	return err
}
