package offload

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/stevedore-bus/stevedore/tools"
)

// Tools returns the reading functions as tools for a model. They read the session of
// their call and are idempotent. Their results are never offloaded and not shown to
// the user.
func (r *Reader) Tools() []tools.Tool {
	return []tools.Tool{
		readTool(ToolGet, "Read an artifact (a stored tool result) from a character offset, at most 15,000 characters per page. "+
			"The first line gives the offset of the next page. An image is shown as an image.",
			func(ctx context.Context, session string, in getArgs) (textResult, error) {
				page, err := r.GetByID(ctx, session, in.ArtifactID, in.Offset, in.Limit)
				if err != nil || page.MediaType == "" {
					return page, err
				}
				if image, err := r.Image(ctx, session, page.ArtifactID); err != nil || image != nil {
					return image, err
				}
				return page, nil
			}),
		readTool(ToolLines, "Read a range of lines of an artifact, for instance around a match of grep_knowledge.",
			func(ctx context.Context, session string, in linesArgs) (textResult, error) {
				return r.GetByLines(ctx, session, in.ArtifactID, in.LinesQuery)
			}),
		readTool(ToolGrep, "Search the lines of an artifact with a regular expression. Counts all matches; shows matching lines as '12: "+
			"text' and context as '11- text'. "+
			"Usually the best first step with a long text.",
			func(ctx context.Context, session string, in grepArgs) (textResult, error) {
				return r.Grep(ctx, session, in.ArtifactID, in.GrepQuery)
			}),
		readTool(ToolJQ, "Run a jq query on an artifact that is JSON, YAML, XML, NDJSON (the query runs on each row) or a table (CSV, TSV: an array "+
			"of objects whose values are strings). "+
			"Start with 'keys', 'length' or '.[0]' if you do not know its structure. Returns one JSON value per line.",
			func(ctx context.Context, session string, in jqArgs) (textResult, error) {
				return r.JQ(ctx, session, in.ArtifactID, in.JQQuery)
			}),
		readTool(ToolSQL, "Run a SELECT (SQLite) on one or several artifacts that are tables: CSV, TSV, arrays of JSON, YAML or XML, NDJSON, "+
			"JSON logs, Markdown, tables of kubectl, psql, docker. "+
			"Join, group, sort and count there instead of reading rows. Cells that do not fit a column of numbers are NULL; the column NAME_text has them. "+
			"A wrong query answers with the columns.",
			func(ctx context.Context, session string, in SQLQuery) (textResult, error) {
				return r.SQL(ctx, session, in)
			}),
		readTool(ToolQuery, "List the artifacts (offloaded tool results) of this conversation, oldest first, with their ids, tools and sizes.",
			func(ctx context.Context, session string, in queryArgs) (textResult, error) {
				return r.list(ctx, session, in.Filter, in.Offset, pageArtifacts, r.cfg.MaxChars-noteReserve)
			}),
		readTool(ToolInfo, "List the offloaded tool results of this conversation: ids, tools, sizes and ages.",
			func(ctx context.Context, session string, in infoArgs) (textResult, error) {
				if in.Session != "" && tools.Token(in.Session) != session {
					return nil, tools.Errorf(tools.CodeInvalidArguments, "session %q is not the session of this call; omit session", tools.Excerpt(in.Session, 100))
				}
				return r.list(ctx, session, ofTask(in.Task), in.Offset, pageArtifacts, r.cfg.MaxChars-noteReserve)
			}),
	}
}

type getArgs struct {
	ArtifactID string `json:"artifact_id" jsonschema:"the id of the artifact, as its reference shows it"`
	Offset     int64  `json:"offset,omitempty" jsonschema:"the first character to read, counted from 0; default 0"`
	Limit      int64  `json:"limit,omitempty" jsonschema:"how many characters to read; default and maximum 15000"`
}

type linesArgs struct {
	ArtifactID string `json:"artifact_id" jsonschema:"the id of the artifact, as its reference shows it"`
	LinesQuery
}

type grepArgs struct {
	ArtifactID string `json:"artifact_id" jsonschema:"the id of the artifact, as its reference shows it"`
	GrepQuery
}

type jqArgs struct {
	ArtifactID string `json:"artifact_id" jsonschema:"the id of the artifact, as its reference shows it"`
	JQQuery
}

type queryArgs struct {
	Filter map[string]string `json:"filter,omitempty" jsonschema:"metadata values that must all be equal: context_type, biz_id (the id of the tool call), tool_name, action_name, task_id, agent_id, type (TEXT, JSON, BINARY); omit it to list all artifacts"`
	Offset int               `json:"offset,omitempty" jsonschema:"how many of the newest artifacts to leave out; an answer has at most 50"`
}

type infoArgs struct {
	Session string `json:"session,omitempty" jsonschema:"omit it; only the session of this conversation can be read"`
	Task    string `json:"task,omitempty" jsonschema:"only results of this task"`
	Offset  int    `json:"offset,omitempty" jsonschema:"how many of the newest results to leave out"`
}

// aliases are names that models write instead of those of the arguments.
var aliases = map[string]string{
	"knowledge_id": "artifact_id", "id": "artifact_id", "artifact": "artifact_id",
	"start": "start_line", "end": "end_line", "line": "start_line", "regex": "pattern", "search_filter": "filter",
	"regexp": "pattern", "case_insensitive": "ignore_case",
	"before": "context_before", "after": "context_after", "limit": "max_results", "jq": "query", "expression": "query",
	"artifact_ids": "artifacts", "ids": "artifacts", "tables": "artifacts", "task_id": "task",
	"session_id": "session", "namespace": "",
}

// CoerceArguments returns the arguments of a reading tool in the form of its schema, as
// the registry does for a call: numbers may be strings, and arguments have aliases.
func CoerceArguments(tool string, args json.RawMessage) json.RawMessage {
	for _, t := range (&Reader{}).Tools() {
		if def := t.Definition(); def.Name == tool {
			args, _ = tools.Coerce(def.Parameters, def.Aliases, args)
		}
	}
	return args
}

// textResult is a result with a form for models.
type textResult interface{ Text() string }

// readTool returns a tool for a reading function, which gets the session from the
// call and never from an argument.
func readTool[In any](name, description string, read func(ctx context.Context, session string, in In) (textResult, error)) tools.Tool {
	tool := tools.MustTool(name, description, func(ctx context.Context, call tools.Call, in In) *tools.Result {
		found, err := read(ctx, inSession(call).SessionToken(), in)
		if err != nil {
			return tools.SilentFailure(err)
		}
		if image, ok := found.(*Image); ok {
			return image.result()
		}
		return tools.SilentResult(found.Text())
	})
	return tool.WithEffect(tools.Idempotent).WithoutOffload().Leniently(aliasesOf(tool.Definition().Parameters.Properties))
}

// aliasesOf returns the aliases of the arguments of a tool. A name that means the same in another
// tool is one, too.
func aliasesOf(arguments map[string]*jsonschema.Schema) map[string]string {
	names := maps.Clone(aliases)
	for _, same := range [][]string{{"artifact_id", "artifacts"}, {"query", "sql", "pattern"}} {
		have := slices.IndexFunc(same, func(name string) bool { return arguments[name] != nil })
		for alias, name := range names {
			if have >= 0 && slices.Contains(same, name) {
				names[alias] = same[have]
			}
		}
		for _, name := range same {
			if have >= 0 && name != same[have] {
				names[name] = same[have]
			}
		}
	}
	if arguments["session"] == nil {
		names["session_id"] = "" // the tool reads the session of its call in any case
	}
	return names
}
