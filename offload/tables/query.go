// Package tables answers SQL queries about artifacts that are tables: CSV, TSV, arrays of JSON, YAML
// and XML, NDJSON, logs with JSON in their lines, Markdown tables, and the tables that psql, mysql, kubectl
// and docker print.
//
// Each artifact is read three times: for the places in JSON that are tables, for the names and types
// of the columns, and to import it into an SQLite database in a file of its own. A query runs on a connection
// that has these files attached read-only. An authorizer then allows nothing but SELECT. All of
// that, except for the choice of the files (Cache), runs in a process with bounded memory.
package tables

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/offload/describe"
	"github.com/stevedore-bus/stevedore/offload/internal/cursor"
	"github.com/stevedore-bus/stevedore/offload/internal/markup"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/limited"
)

// MaxTables is how many tables one query can read. SQLite attaches at most 10 databases.
const MaxTables = 8

const maxSQL = 16 << 10 // bytes

// Query configures a query. Its JSON form is the arguments of the tool.
type Query struct {
	SQL       string   `json:"sql,omitempty" jsonschema:"one SELECT in SQLite's dialect; omit it to see the columns"`
	Artifacts []string `json:"artifacts,omitempty" jsonschema:"ids, which the query calls t1, t2, ...; ID:.path selects a nested JSON array. Not needed if FROM names the ids"`
	Path      string   `json:"path,omitempty" jsonschema:"of the table in one JSON artifact, as jq writes it, such as .runs[0].results"`
	Header    *bool    `json:"header,omitempty" jsonschema:"whether the first row of a text has the names of the columns, if the answer assumes it wrongly"`
	Delimiter string   `json:"delimiter,omitempty" jsonschema:"the character between the cells of a text, likewise"`
	Cursor    string   `json:"cursor,omitempty" jsonschema:"where to continue, as an earlier answer to the same query gave it"`
}

// Formats of contents.
const (
	FormatTable = "table" // a text that may have a table, of the form Table.Form
	FormatJSON  = "json"  // one JSON document or several values
	FormatLog   = "log"   // a text with JSON in its lines
	FormatYAML  = markup.YAML
	FormatXML   = markup.XML
)

// Table is an artifact that a query can read.
type Table struct {
	// Names are those that the query can use.
	Names []string `json:"names"`
	ID    string   `json:"id"`
	// Path is the place of an array in a JSON document, such as ".data.items". Empty means
	// the longest array.
	Path   string        `json:"path,omitempty"`
	Format string        `json:"format"`
	Form   describe.Form `json:"form"`
	Size   int64         `json:"size"`
	Notes  []string      `json:"-"` // that each answer has
	// File is the database, from Cache.Take. If Content is nil, it exists.
	File    string      `json:"file"`
	Content io.ReaderAt `json:"-"`
	// Import is true if the content follows the request, once for each of the passes.
	Import bool `json:"import,omitempty"`
}

// Source is the tables of a query and its bounds.
type Source struct {
	Tables []Table `json:"tables"`
	Dir    string  `json:"dir"`   // for temporary files
	Chars  int     `json:"chars"` // of the rows that are returned
	// CPU is the limit of processor time for the query; 0 means that of limited.SQL. See Limit.
	CPU time.Duration `json:"cpu"`
	// Command is a program with arguments that calls Serve. Without it, the query runs in
	// this process, with Engine.
	Command []string `json:"-"`
	Engine  Engine   `json:"-"`
}

// Limit returns the processor time that the query may take with the import of its tables: a minute
// for 200 MB on a busy machine.
func (s Source) Limit() time.Duration {
	var size, imported int64
	for _, t := range s.Tables {
		size += t.Size
		if t.Content != nil {
			imported += t.Size
		}
	}
	return cmp.Or(s.CPU, limited.SQL.CPU(size)) + time.Duration(imported/(4<<20))*time.Second
}

// Result is the answer to a query.
type Result struct {
	SQL     string   `json:"sql"`
	Columns []string `json:"columns"`
	// Rows have numbers, strings, and null.
	Rows [][]any `json:"rows"`
	// Skipped is how many rows precede Rows. Total counts all rows of the answer; if
	// AtLeast is true, there may be more.
	Skipped int64 `json:"skipped,omitempty"`
	Total   int64 `json:"total"`
	AtLeast bool  `json:"at_least,omitempty"`
	// NextCursor is where the query continues, if not all rows are shown.
	NextCursor string `json:"next_cursor,omitempty"`
	// Tables describe the tables if there was no query.
	Tables []Schema `json:"tables,omitempty"`
	// Notes say what a reader may not expect.
	Notes []string `json:"notes,omitempty"`
}

// Text returns the form for a model: the columns and the rows, with "|" between the cells.
func (r *Result) Text() string {
	var b strings.Builder
	if r.SQL == "" {
		b.WriteString(columnsOf(r.Tables))
	} else {
		more := ""
		if r.AtLeast {
			more = "at least "
		}
		fmt.Fprintf(&b, "Found %s%d row(s)", more, r.Total)
		if len(r.Rows) > 0 && int64(len(r.Rows)) < r.Total {
			fmt.Fprintf(&b, "; these are %d to %d", r.Skipped+1, r.Skipped+int64(len(r.Rows)))
		}
		b.WriteString(":\n\n" + line(r.Columns))
	}
	for _, row := range r.Rows {
		b.WriteString("\n" + rowText(row))
	}
	if r.NextCursor != "" {
		fmt.Fprintf(&b, "\n\n[there are more rows; continue with cursor=%q, or narrow the query]", r.NextCursor)
	}
	for _, note := range r.Notes {
		b.WriteString("\n\n[" + note + "]")
	}
	return b.String()
}

// rowText returns a row as Text shows it.
func rowText(row []any) string {
	cells := make([]string, len(row))
	for i, cell := range row {
		if cells[i] = "NULL"; cell != nil {
			cells[i] = fmt.Sprint(cell)
		}
	}
	return line(cells)
}

var inCell = strings.NewReplacer("\\", `\\`, "|", `\|`, "\n", `\n`, "\r", `\r`)

func line(cells []string) string {
	escaped := make([]string, len(cells))
	for i, cell := range cells {
		escaped[i] = cell
		if strings.ContainsAny(cell, "|\n\r") {
			escaped[i] = inCell.Replace(cell)
		}
	}
	return strings.Join(escaped, "|")
}

// Run runs a query. An error that the client can fix is a *tools.Error; that of a wrong query has
// the columns of the tables.
func Run(ctx context.Context, src Source, q Query) (*Result, error) {
	if err := Check(q); err != nil {
		return nil, err
	}
	if src.Engine == nil && len(src.Command) == 0 {
		return nil, tools.Errorf(tools.CodeToolFailed, "this program has no SQL; use jq_knowledge or grep_knowledge")
	}
	place, err := cursor.Parse(q.Cursor, 0)
	if err != nil {
		return nil, err
	}
	req := request{Source: src, SQL: strings.TrimSpace(q.SQL), Skip: place.More}
	req.CPU = src.Limit()
	var contents []io.Reader
	for i := range req.Tables {
		t := &req.Tables[i]
		if t.Import = t.Content != nil; t.Import {
			for range t.passes() {
				contents = append(contents, io.NewSectionReader(t.Content, 0, t.Size))
			}
		}
	}
	if len(src.Command) == 0 {
		return answer(ctx, src.Engine, req, io.MultiReader(contents...))
	}
	res, err := limited.Ask[*Result](ctx, src.Command, req, io.MultiReader(contents...))
	if errors.Is(err, limited.ErrMemory) {
		err = tools.Errorf(tools.CodeInvalidArguments, "the query or one row of its tables needs too much memory; narrow the query, or use grep_knowledge")
	}
	if reached, killed := errors.AsType[limited.Reached](err); killed {
		err = tools.Errorf(tools.CodeTimeout, "the query was stopped: %s; %s", reached, advice)
	}
	return res, err
}

// Check returns the error of a query that cannot run, whatever its tables are.
func Check(q Query) error {
	if len(q.SQL) > maxSQL {
		return tools.Errorf(tools.CodeInvalidArguments, "the query has %d bytes; at most %d are accepted", len(q.SQL), maxSQL)
	}
	if strings.ContainsRune(q.SQL, 0) {
		return tools.Errorf(tools.CodeInvalidArguments, "the query contains a zero byte")
	}
	return nil
}
