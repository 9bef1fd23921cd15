// Package sqlite is the SQLite of package tables. A program that runs SQL in its own process gives
// its Engine to the reader, as ReaderConfig.SQL.
package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"io"
	"strings"

	"modernc.org/sqlite" // also the driver
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/stevedore-bus/stevedore/offload/tables"
)

// Engine is SQLite.
type Engine struct{}

// SQLite's own lower and upper know only the letters of ASCII.
func init() {
	for name, change := range map[string]func(string) string{"lower": strings.ToLower, "upper": strings.ToUpper} {
		sqlite.MustRegisterDeterministicScalarFunction(name, 1, func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
			switch v := args[0].(type) {
			case nil:
				return nil, nil
			case []byte:
				return change(string(v)), nil
			default:
				return change(fmt.Sprint(v)), nil
			}
		})
	}
}

// Serve answers one query for the process that started this one; see tables.Serve.
func Serve(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	return tables.Serve(ctx, Engine{}, stdin, stdout)
}

// limits are what one statement may need.
var limits = map[int]int{
	sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50, sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200, sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1_000,
	sqlite3.SQLITE_LIMIT_ATTACHED: 0, sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 0, sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 0,
	sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}

// Confine refuses everything but SELECT on the tables.
func (Engine) Confine(conn *sql.Conn, maxValue, maxStatement int) error {
	limit := func(id, most int) error {
		_, err := sqlite.Limit(conn, id, most)
		return err
	}
	for id, most := range limits {
		if err := limit(id, most); err != nil {
			return err
		}
	}
	if err := limit(sqlite3.SQLITE_LIMIT_LENGTH, maxValue); err != nil {
		return err
	}
	if err := limit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, maxStatement); err != nil {
		return err
	}
	return conn.Raw(func(connection any) error {
		return connection.(sqlite.AuthorizerRegisterer).RegisterAuthorizer(authorize)
	})
}

// authorize allows SELECT, and the functions that SQLite has without files and extensions.
func authorize(action sqlite.AuthorizerActionCode, arg1, arg2, db, _ string) sqlite.AuthorizerReturnCode {
	switch action {
	case sqlite.AuthSelect, sqlite.AuthRecursive:
		return sqlite.AuthorizerOK
	case sqlite.AuthRead:
		if !strings.HasPrefix(strings.ToLower(arg1), "sqlite_") && (arg1 != "meta" || db == "temp") { // an artifact may have this id
			return sqlite.AuthorizerOK
		}
	case sqlite.AuthFunction:
		switch strings.ToLower(arg2) {
		case "load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", "sqlite_log", "sqlite_compileoption_get", "sqlite_compileoption_used":
		default:
			return sqlite.AuthorizerOK
		}
	}
	return sqlite.AuthorizerDeny
}
