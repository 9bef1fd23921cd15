package tables

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/offload/describe"
	"github.com/stevedore-bus/stevedore/offload/internal/jsonread"
	"github.com/stevedore-bus/stevedore/offload/internal/markup"
	"github.com/stevedore-bus/stevedore/tools"
)

// Schema describes a table of a query.
type Schema struct {
	Names []string `json:"names"`
	ID    string   `json:"id"`
	// Path is the place of the rows in a JSON document, and Others those of its other tables.
	Path    string           `json:"path,omitempty"`
	Others  []describe.Place `json:"others,omitempty"`
	Rows    int64            `json:"rows"`
	Columns []Column         `json:"columns"`
	// Notes say what was assumed of a text.
	Notes []string `json:"notes,omitempty"`
}

// lower returns the names of the columns in lower case.
func (s Schema) lower() (names []string) {
	for _, c := range s.Columns {
		names = append(names, strings.ToLower(c.Name))
	}
	return names
}

// passes returns how often a content is read: for the path of rows of JSON, for the columns, and for
// the rows, or once if it becomes JSON.
func (t Table) passes() int {
	switch t.Format {
	case FormatTable:
		return 2
	case FormatYAML, FormatXML:
		return 1
	}
	return 3
}

// load imports a table into its file, from the content that follows in contents for each of the
// passes. The file is complete or does not exist.
func load(ctx context.Context, t Table, contents io.Reader) error {
	l := &layout{words: t.Format == FormatXML}
	var err error
	if t.passes() == 1 {
		data, err := markup.Read(io.LimitReader(reader{ctx, contents}, t.Size), t.Format)
		if err != nil {
			return ofTable(t, err)
		}
		pass := string(data)
		t.Format, t.Size = FormatJSON, int64(len(pass))
		contents = io.MultiReader(strings.NewReader(pass), strings.NewReader(pass), strings.NewReader(pass))
	}
	if t.Format != FormatTable {
		err = once(ctx, contents, t.Size, func(src io.Reader) error { return l.find(t, src) })
	}
	if err == nil {
		err = once(ctx, contents, t.Size, func(src io.Reader) error { return l.look(t, src) })
	}
	if err != nil {
		return ofTable(t, err)
	}
	schema := Schema{Others: l.others, Columns: l.typed(), Notes: slices.Clone(t.Form.Assumed)}
	schema.Notes = append(append(schema.Notes, l.renamed...), l.notes...)
	for i, seen := range l.seen {
		if seen.total != "" {
			schema.Notes = append(schema.Notes, fmt.Sprintf("the column %s has a '%s', so that a row may be the sum of others",
				columnName(schema.Columns[i].Name), seen.total))
		}
	}
	if (t.Format == FormatJSON || t.Format == FormatLog) && l.path != rowsPath && l.path != wholePath {
		schema.Path = l.path
	}
	part := t.File + partSuffix
	_ = os.Remove(part) // of an import that was stopped
	err = once(ctx, contents, t.Size, func(src io.Reader) error { return schema.write(ctx, part, l, t, src) })
	if err == nil {
		err = os.Rename(part, t.File)
	}
	if err != nil {
		_ = os.Remove(part)
		return ofTable(t, err)
	}
	return nil
}

// partSuffix ends the name of a file that is being written.
const partSuffix = ".part"

// once calls f with the next size bytes of contents, all of which are then read.
func once(ctx context.Context, contents io.Reader, size int64, f func(io.Reader) error) error {
	src := io.LimitReader(reader{ctx, contents}, size)
	if err := f(src); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, src)
	return err
}

// reader ends with its context.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// ofTable returns the error of an import with the name of the artifact.
func ofTable(t Table, err error) error {
	if why, ok := errors.AsType[describe.NoTable](err); ok {
		jq := "jq_knowledge, "
		if strings.HasPrefix(string(why), jsonread.ErrNotJSON.Error()) || t.Format == FormatTable && !(t.Form.Certain && t.Form.Kind == describe.Cells) {
			jq = "" // which refuses the text, too
		}
		err = tools.Errorf(tools.CodeInvalidArguments, "it is not a table that SQL can read (%s); use %sgrep_knowledge or get_knowledge_by_lines", why, jq)
	}
	if wrong, ok := errors.AsType[*tools.Error](err); ok {
		return tools.Errorf(wrong.Code, "the artifact %q: %s", tools.Excerpt(t.ID, 100), wrong.Message)
	}
	return fmt.Errorf("import the artifact %q: %w", tools.Excerpt(t.ID, 100), err)
}

// write writes the database of a table.
func (s *Schema) write(ctx context.Context, file string, l *layout, t Table, src io.Reader) (err error) {
	// The file is removed after an error, so nothing needs a journal.
	db, err := sql.Open("sqlite", uri(file)+"?_pragma=journal_mode(off)&_pragma=synchronous(off)&_pragma=locking_mode(exclusive)&_pragma=cache_size(-8000)"+
		fmt.Sprintf("&_pragma=max_page_count(%d)", maxFile/4096))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after Commit, it does nothing
	definitions := make([]string, len(s.Columns))
	for i, c := range s.Columns {
		definitions[i] = quote(c.Name) + " " + affinity(c.Type)
	}
	if _, err := tx.Exec("CREATE TABLE data (" + strings.Join(definitions, ", ") + ")"); err != nil {
		return err
	}
	if err := s.insert(tx, l, t, src); err != nil {
		return tooLarge(err)
	}
	meta, err := json.Marshal(s)
	if err != nil {
		return err
	}
	for _, statement := range []struct {
		sql  string
		args []any
	}{{"CREATE TABLE meta (schema TEXT)", nil}, {"INSERT INTO meta VALUES (?)", []any{string(meta)}}, {"ANALYZE data", nil}} {
		if _, err := tx.Exec(statement.sql, statement.args...); err != nil {
			return tooLarge(err)
		}
	}
	return tooLarge(tx.Commit())
}

// One INSERT has up to batchValues values, or more than batchBytes bytes. Larger ones are hardly
// faster, and one for each row takes twice as long.
const (
	batchValues = 256
	batchBytes  = 1 << 20
)

// insert inserts the rows, several at a time.
func (s *Schema) insert(tx *sql.Tx, l *layout, t Table, src io.Reader) error {
	n := len(s.Columns)
	row := "(" + strings.Repeat("?,", n-1) + "?)"
	statement := func(rows int) string { return "INSERT INTO data VALUES " + strings.Repeat(row+",", rows-1) + row }
	full, err := tx.Prepare(statement(max(batchValues/n, 1)))
	if err != nil {
		return err
	}
	values, size := make([]any, 0, max(batchValues/n, 1)*n), 0
	flush := func() (err error) {
		switch len(values) {
		case 0:
		case cap(values):
			_, err = full.Exec(values...)
		default:
			_, err = tx.Exec(statement(len(values)/n), values...)
		}
		values, size = values[:0], 0
		return err
	}
	err = l.rows(t, src, func(cells []cell) error {
		for _, c := range s.Columns {
			var v any
			if c.source < len(cells) {
				v = c.value(cells[c.source])
				size += len(cells[c.source].text)
			}
			values = append(values, v)
		}
		s.Rows++
		if len(values) < cap(values) && size < batchBytes {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	return err
}

// tooLarge explains the error of a database that reached its size.
func tooLarge(err error) error {
	if err != nil && strings.Contains(err.Error(), "database or disk is full") {
		return tools.Errorf(tools.CodeInvalidArguments, "its table needs more than %d MiB, or the disk is full; use jq_knowledge or grep_knowledge", maxFile>>20)
	}
	return err
}

// affinity returns the type of a column in SQLite's sense. "JSON" would convert text to numbers.
func affinity(typ string) string {
	switch typ {
	case "JSON", "DATE":
		return "TEXT"
	case "BOOLEAN":
		return "INTEGER"
	}
	return typ
}

// quote returns a name for SQL.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// uri returns the name of a file in the form in which options can follow.
func uri(file string) string {
	return "file:" + strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(file)
}
