package offload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/offload/describe"
	"github.com/stevedore-bus/stevedore/offload/tables"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
	"github.com/stevedore-bus/stevedore/tools/limited"
)

// The query of SQL, and its result.
type (
	SQLQuery  = tables.Query
	SQLResult = tables.Result
)

// tableRef is an artifact that a query names.
type tableRef struct {
	names    []string // in the query
	id, path string
}

// SQL runs a SELECT on artifacts that are tables; see tables.Run. The query can name the artifacts
// of q as t1, t2, ... in their order, or by their ids; and those that only FROM and JOIN name.
func (r *Reader) SQL(ctx context.Context, session string, q SQLQuery) (res *SQLResult, err error) {
	if err := tables.Check(q); err != nil {
		return nil, err
	}
	defer countRead("sql", time.Now())
	known := describe.Hints{Header: q.Header}
	if known.Comma, err = comma(q.Delimiter); err != nil {
		return nil, err
	}
	refs, err := r.tableRefs(ctx, session, q)
	if err != nil {
		return nil, err
	}
	dir, err := r.cfg.SQLCache.Dir()
	if err != nil {
		return nil, err
	}
	src := tables.Source{Dir: dir, Chars: r.cfg.MaxChars - noteReserve, CPU: r.cfg.SQLTime, Command: r.cfg.Pool.Command(limited.SQL), Engine: r.cfg.SQL}
	err = r.withTables(ctx, session, refs, known, nil, func(found []tables.Table) error {
		src.Tables = found
		return r.turn(ctx, session, src.Limit(), func(ctx context.Context) error {
			if res, err = tables.Run(ctx, src, q); err == nil {
				for _, t := range found {
					for _, note := range t.Notes {
						if note = t.Names[0] + ": " + note; !slices.Contains(res.Notes, note) {
							res.Notes = append(res.Notes, note)
						}
					}
				}
			}
			return err
		})
	})
	return res, err
}

// comma returns the character that a model writes as a delimiter, or 0 for none.
func comma(delimiter string) (rune, error) {
	switch {
	case delimiter == "":
		return 0, nil
	case delimiter == `\t`, strings.EqualFold(delimiter, "tab"):
		return '\t', nil
	case utf8.RuneCountInString(delimiter) > 1, strings.ContainsAny(delimiter, "\"\r\n\ufffd"):
		return 0, tools.Errorf(tools.CodeInvalidArguments, "delimiter must be one character, not %q", tools.Excerpt(delimiter, 20))
	}
	first, _ := utf8.DecodeRuneInString(delimiter)
	return first, nil
}

// inFrom matches FROM or JOIN with the names behind it, and tableName one of these names.
var (
	inFrom    = lazyregexp.New(`(?i)\b(?:from|join)\s+` + anyName + `(?:(?:\s+(?:as\s+)?\w+)?\s*,\s*` + anyName + `)*`)
	tableName = lazyregexp.New(`(?:^\w+\s|,)\s*(` + anyName + `)`)
)

const anyName = "(?:\"[^\"]+\"|`[^`]+`|\\[[^\\]]+\\]|'[^']+'|[A-Za-z0-9_:.-]+)"

// tableRefs returns the artifacts that a query names.
func (r *Reader) tableRefs(ctx context.Context, session string, q SQLQuery) (refs []tableRef, err error) {
	for i, name := range q.Artifacts {
		id, path := splitPath(name)
		refs = append(refs, tableRef{[]string{fmt.Sprintf("t%d", i+1), id}, id, path})
	}
	var names [][]string
	for _, list := range inFrom.FindAllString(q.SQL, -1) {
		names = append(names, tableName.FindAllStringSubmatch(list, -1)...)
	}
	for _, found := range names {
		name := found[1]
		if strings.IndexByte("\"`['", name[0]) >= 0 {
			name = name[1 : len(name)-1]
		}
		if slices.ContainsFunc(refs, func(ref tableRef) bool { return slices.Contains(ref.names, name) }) {
			continue
		}
		id, path := splitPath(name)
		_, err := r.Record(ctx, session, id)
		if tools.CodeOf(err) == tools.CodeNotFound { // a name of WITH, or a wrong one
			continue
		}
		if err != nil {
			return nil, err
		}
		refs = append(refs, tableRef{[]string{name}, id, path})
	}
	switch {
	case q.Path == "":
	case len(refs) != 1:
		first := "ID"
		if len(refs) > 0 {
			first = refs[0].id
		}
		return nil, tools.Errorf(tools.CodeInvalidArguments, "path is for a query about one artifact; write artifacts: [\"%s:%s\"]", first, q.Path)
	default:
		refs[0].path = q.Path
	}
	if len(refs) > tables.MaxTables {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "the query names %d artifacts; it can read %d", len(refs), tables.MaxTables)
	}
	return refs, nil
}

// splitPath splits "ID:.path".
func splitPath(name string) (id, path string) {
	for _, separator := range []string{":.", ":["} {
		if at := strings.Index(name, separator); at > 0 {
			return name[:at], name[at+1:]
		}
	}
	return name, ""
}

// withTables calls f with the tables of refs, behind those of found. It opens only those whose
// database is not in the cache.
func (r *Reader) withTables(ctx context.Context, session string, refs []tableRef, known describe.Hints, found []tables.Table, f func([]tables.Table) error) error {
	if len(refs) == 0 {
		return f(found)
	}
	ref := refs[0]
	rec, err := r.Record(ctx, session, ref.id)
	if err != nil {
		return err
	}
	t := tables.Table{Names: ref.names, ID: rec.ID, Path: ref.path, Size: rec.Size, Notes: rec.Lost()}
	file, exists, done, err := r.cfg.SQLCache.Take(rec.Digest + " " + rec.MediaType + " " + ref.path + known.String())
	if err != nil {
		return err
	}
	defer done()
	t.File = file
	if exists {
		return r.withTables(ctx, session, refs[1:], known, append(found, t), f)
	}
	var failed error // of f, which readError must not change
	err = r.withText(ctx, session, ref.id, func(rec Record, c blockContent) error {
		form, err := rec.tableForm(c, c.Size(), known)
		if err != nil {
			return err
		}
		t.Content, t.Size, t.Form, t.Format = c, c.Size(), form, tables.FormatTable
		switch {
		case isMedia(rec.MediaType, mediaLog):
			t.Format = tables.FormatLog
		case rec.markup() != "":
			t.Format = rec.markup()
		case form.Kind == "":
			t.Format = tables.FormatJSON
		}
		failed = r.withTables(ctx, session, refs[1:], known, append(found, t), f)
		return nil
	})
	return errors.Join(failed, err)
}
