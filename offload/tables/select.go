package tables

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/offload/describe"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
	"github.com/stevedore-bus/stevedore/tools/limited"
)

// database is a connection that can only read the tables of a query.
type database struct {
	pool    *sql.DB
	conn    *sql.Conn
	schemas []Schema
}

// open attaches the files of the tables, gives each table its names, and then confines the
// connection.
func open(ctx context.Context, engine Engine, req request) (_ *database, err error) {
	// Without _dqs=0, a name in double quotes that no column has is a string.
	pool, err := sql.Open("sqlite", "file::memory:?_dqs=0")
	if err != nil {
		return nil, err
	}
	d := &database{pool: pool}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if d.conn, err = pool.Conn(ctx); err != nil {
		return nil, err
	}
	setup := []string{"PRAGMA temp_store = file", "PRAGMA cache_size = -48000", "PRAGMA temp.cache_size = -16000",
		fmt.Sprintf("PRAGMA hard_heap_limit = %d", limited.SQL.Memory)}
	if req.Dir != "" {
		setup = append(setup, "PRAGMA temp_store_directory = "+literal(req.Dir))
	}
	used := map[string]string{} // the artifacts by their names
	for i, t := range req.Tables {
		source := fmt.Sprintf("s%d", i+1)
		setup = append(setup, fmt.Sprintf("ATTACH '%s?mode=ro&immutable=1' AS %s", strings.ReplaceAll(uri(t.File), "'", "''"), source),
			fmt.Sprintf("PRAGMA %s.cache_size = -4000", source))
		for _, name := range t.Names {
			switch other, taken := used[strings.ToLower(name)]; {
			case !taken:
				setup = append(setup, fmt.Sprintf("CREATE TEMP VIEW %s AS SELECT * FROM %s.data", quote(viewName(name)), source))
			case other != t.ID:
				return nil, tools.Errorf(tools.CodeInvalidArguments, "%q is the name of both artifacts %s and %s (SQL ignores the case of letters): "+
					"name them in another order, or ask about one at a time", name, other, t.ID)
			}
			used[strings.ToLower(name)] = t.ID
		}
	}
	for _, statement := range setup {
		if _, err := d.conn.ExecContext(ctx, statement); err != nil {
			return nil, fmt.Errorf("prepare the tables: %w", err)
		}
	}
	for i, t := range req.Tables {
		var meta string
		if err := d.conn.QueryRowContext(ctx, fmt.Sprintf("SELECT schema FROM s%d.meta", i+1)).Scan(&meta); err != nil {
			return nil, fmt.Errorf("prepare the tables: %w", err)
		}
		schema := Schema{}
		if err := json.Unmarshal([]byte(meta), &schema); err != nil {
			return nil, fmt.Errorf("prepare the tables: %w", err)
		}
		schema.Names, schema.ID = t.Names, t.ID
		d.schemas = append(d.schemas, schema)
	}
	return d, engine.Confine(d.conn, maxRow, maxSQL)
}

func (d *database) close() {
	if d.conn != nil {
		_ = d.conn.Close()
	}
	_ = d.pool.Close()
}

// viewName returns the name of the view of an artifact, such as the result of a tool "sqlite_query":
// SQLite reserves the names that begin with "sqlite_".
func viewName(name string) string {
	if strings.HasPrefix(strings.ToLower(name), "sqlite_") {
		return "_" + name
	}
	return name
}

// countTime is how long rows that do not fit are counted.
const countTime = 2 * time.Second

// maxCell is how many characters of a cell are shown.
const maxCell = 4_000

// advice is what helps a query that takes too long.
const advice = "narrow it, join by columns of one type, ask about fewer rows, or give WITH RECURSIVE an end"

// query runs the query.
func (d *database) query(ctx context.Context, req request) (*Result, error) {
	res := &Result{SQL: req.SQL, Skipped: req.Skip, Rows: [][]any{}, Notes: d.notes(ctx, req.SQL)}
	err := d.collect(ctx, req, res)
	reached, timeUp := limited.TimeUp(ctx)
	switch {
	case err == nil:
		if note := d.aboutDivisions(ctx, req, res); note != "" {
			res.Notes = append(res.Notes, note)
		}
		return res, nil
	case timeUp && len(res.Rows) > 0:
		res.AtLeast, res.NextCursor = true, cursorAt(req.Skip+int64(len(res.Rows)))
		res.Notes = append(res.Notes, fmt.Sprintf("the query was stopped: %s; %s", reached, advice))
		return res, nil
	case timeUp:
		return nil, tools.Errorf(tools.CodeTimeout, "the query was stopped: %s; %s", reached, advice)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, d.wrong(req.SQL, err)
}

// collect adds the rows that fit, and counts the others.
func (d *database) collect(ctx context.Context, req request, res *Result) error {
	var names []string
	for _, t := range req.Tables {
		for _, name := range t.Names {
			names = append(names, name, viewName(name))
		}
	}
	rows, err := d.conn.QueryContext(ctx, strings.NewReplacer(names...).Replace(req.SQL)) // one name may contain another
	if err != nil {
		return err
	}
	defer rows.Close()
	if res.Columns, err = rows.Columns(); err != nil {
		return err
	}
	row := make([]any, len(res.Columns))
	into := make([]any, len(row))
	for i := range row {
		into[i] = &row[i]
	}
	left := req.Chars - utf8.RuneCountInString(line(res.Columns))
	if left < 0 {
		return tools.Errorf(tools.CodeInvalidArguments, "the names of the %d columns are longer than the %d characters that can be shown; "+
			"select fewer", len(row), req.Chars)
	}
	full := time.Time{}
	for rows.Next() {
		res.Total++
		switch {
		case res.Total <= req.Skip:
			continue
		case !full.IsZero() && time.Since(full) < countTime:
			continue
		case !full.IsZero():
			res.AtLeast = true
			return nil
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		shown := show(row)
		if left -= utf8.RuneCountInString(rowText(shown)) + 1; left < 0 {
			if len(res.Rows) == 0 {
				return tools.Errorf(tools.CodeInvalidArguments, "one row of the answer is longer than the %d characters that can be shown; "+
					"select fewer columns, or substr(column, 1, 500)", req.Chars)
			}
			full, res.NextCursor = time.Now(), cursorAt(req.Skip+int64(len(res.Rows)))
			continue
		}
		res.Rows = append(res.Rows, shown)
	}
	return rows.Err()
}

// show returns the values of a row for JSON. Long texts are cut.
func show(row []any) []any {
	shown := make([]any, len(row))
	for i, v := range row {
		switch v := v.(type) {
		case []byte:
			shown[i] = fmt.Sprintf("x'%x'", v[:min(len(v), 100)])
			if len(v) > 100 {
				shown[i] = fmt.Sprintf("%s... [%d bytes]", shown[i], len(v))
			}
		case string:
			v = strings.ToValidUTF8(v, "\uFFFD")
			if shown[i] = v; len(v) > maxCell && utf8.RuneCountInString(v) > maxCell {
				shown[i] = fmt.Sprintf("%s... [%d characters]", tools.Excerpt(v, maxCell), utf8.RuneCountInString(v))
			}
		case float64:
			shown[i] = realText(v)
		case time.Time: // of a column with the type DATE, which no table has
			shown[i] = v.Format(time.RFC3339)
		default:
			shown[i] = v
		}
	}
	return shown
}

// realText returns a number that JSON can have. SQLite prints 3 as 3.0.
func realText(f float64) any {
	data, err := json.Marshal(f)
	if err != nil {
		return fmt.Sprint(f) // an infinity
	}
	if !strings.ContainsAny(string(data), ".eE") {
		data = append(data, ".0"...)
	}
	return json.Number(data)
}

// maxDescription is how many characters the columns of all tables may take.
const maxDescription = 6_000

// columnsOf returns a line for each table.
func columnsOf(schemas []Schema) string {
	if len(schemas) == 0 {
		return `The query has no tables: name the artifacts, as in artifacts: ["ID"] and FROM t1`
	}
	var b strings.Builder
	b.WriteString("The tables are:")
	for _, s := range schemas {
		names := make([]string, len(s.Columns))
		for i, c := range s.Columns {
			names[i] = columnName(c.Name) + " " + c.Type
		}
		fmt.Fprintf(&b, "\n%s", columnName(s.Names[0]))
		if s.Names[0] != s.ID || s.Path != "" {
			fmt.Fprintf(&b, " (%s%s)", s.ID, s.Path)
		}
		fmt.Fprintf(&b, ": %d rows; %s", s.Rows, tools.Excerpt(strings.Join(names, ", "), maxDescription/len(schemas)))
		for _, note := range s.Notes {
			b.WriteString("; " + note)
		}
		if len(s.Others) > 0 {
			fmt.Fprintf(&b, "; other tables, such as %q: %s", s.ID+":"+s.Others[0].Path, tools.Excerpt(describe.List(s.Others), 200))
		}
	}
	return b.String()
}

var plainColumn = lazyregexp.New(`^[A-Za-z_][A-Za-z_0-9]*$`)

// columnName returns a name as a query must write it.
func columnName(name string) string {
	if plainColumn.MatchString(name) && !slices.Contains(keywords, strings.ToUpper(name)) {
		return name
	}
	return quote(name)
}

// keywords are the words of SQLite that are not the names of columns without quotes.
var keywords = strings.Fields("ADD ALL ALTER AND AS AUTOINCREMENT BETWEEN CASE CAST CHECK COLLATE COMMIT CONSTRAINT CREATE DEFAULT " +
	"DEFERRABLE DELETE DISTINCT DROP ELSE ESCAPE " +
	"EXISTS EXCEPT FOREIGN FROM GROUP HAVING IN INDEX INSERT INTERSECT INTO IS ISNULL JOIN LIMIT NOT NOTHING NOTNULL NULL ON OR ORDER " +
	"PRIMARY RAISE REFERENCES RETURNING " +
	"SELECT SET TABLE THEN TO TRANSACTION UNION UNIQUE UPDATE USING VALUES WHEN WHERE CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP")
