// Package sqlite is the SQLite of package tables. A program that runs SQL in its own process gives
// its Engine to the reader, as ReaderConfig.SQL.
package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"modernc.org/sqlite" // also the driver
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/stevedore-bus/stevedore/offload/tables"
)

// Engine is SQLite.
type Engine struct{}

// SQLite's own lower, upper, LIKE and NOCASE know only the letters of ASCII.
func init() {
	sqlite.MustRegisterCollationUtf8("NOCASE", compareFolded)
	sqlite.MustRegisterDeterministicScalarFunction("like", -1, like)
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

// compareFolded compares texts in lower case.
func compareFolded(a, b string) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		c, d := a[i], b[i]
		if c|d >= utf8.RuneSelf {
			return strings.Compare(strings.ToLower(a[i:]), strings.ToLower(b[i:]))
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if 'A' <= d && d <= 'Z' {
			d += 'a' - 'A'
		}
		if c != d {
			return int(c) - int(d)
		}
	}
	return len(a) - len(b)
}

// maxPattern is the length in bytes of the longest pattern of LIKE.
const maxPattern = 1_000

// like is the operator LIKE: its arguments are the pattern, the text and the character of ESCAPE.
func like(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
	texts := [3]string{}
	for i, arg := range args[:min(len(args), 3)] {
		switch v := arg.(type) {
		case nil:
			return nil, nil
		case string:
			texts[i] = v
		case []byte:
			texts[i] = string(v)
		default:
			texts[i] = fmt.Sprint(v)
		}
	}
	switch {
	case len(args) != 2 && len(args) != 3:
		return nil, errors.New("wrong number of arguments to function like()")
	case len(args) == 3 && utf8.RuneCountInString(texts[2]) != 1:
		return nil, errors.New("ESCAPE expression must be a single character")
	case len(texts[0]) > maxPattern:
		return nil, errors.New("LIKE or GLOB pattern too complex")
	}
	pattern, text, escape := strings.ToLower(texts[0]), strings.ToLower(texts[1]), strings.ToLower(texts[2])
	again, from := "", "" // where to go on behind the last "%", with one more character in its place
	for starred := false; ; {
		c, size := utf8.DecodeRuneInString(pattern)
		escaped := escape != "" && strings.HasPrefix(pattern, escape)
		if escaped {
			pattern = pattern[size:]
			c, size = utf8.DecodeRuneInString(pattern)
		}
		t, width := utf8.DecodeRuneInString(text)
		switch {
		case size > 0 && c == '%' && !escaped:
			pattern = pattern[size:]
			again, from, starred = pattern, text, true
		case size > 0 && width > 0 && (c == t || c == '_' && !escaped):
			pattern, text = pattern[size:], text[width:]
		case size == 0 && width == 0 && !escaped:
			return true, nil
		case !starred || from == "":
			return false, nil
		default:
			_, width = utf8.DecodeRuneInString(from)
			from = from[width:]
			pattern, text = again, from
		}
	}
}

// Serve answers one query for the process that started this one; see tables.Serve.
func Serve(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	return tables.Serve(ctx, Engine{}, stdin, stdout)
}

// limits are what one statement may need.
var limits = map[int]int{
	sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50, sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200, sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: maxPattern, // of GLOB
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
