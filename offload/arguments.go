package offload

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/jsonform"
)

// artifactKey marks an object in arguments that stands for the content of an artifact.
const artifactKey = "$artifact"

// maxArguments is the maximum size of all contents that Expand puts into the arguments
// of one call, in bytes.
const maxArguments = 4 << 20

// Expand returns args with the content of an artifact of the session in place of each
// object {"$artifact":"ID"}. Optional keys select a part: "lines" ("10-20", "10-" to the
// end, "-10" for the last 10, [10, 20] or 10), or "jq" (a query; one result becomes its value, several become an array), and
// "base64": true encodes content that is not text. If the schema wants a string, JSON
// becomes its text; if it wants an object or an array, the text is parsed.
//
// Expand returns args as they are if they name no artifact. An error that the model
// can fix is a *tools.Error.
func (r *Reader) Expand(ctx context.Context, session string, schema *jsonschema.Schema, args json.RawMessage) (json.RawMessage, error) {
	if !bytes.Contains(args, []byte(`$artifact"`)) && !bytes.Contains(args, []byte(`\u`)) {
		return args, nil
	}
	value, err := jsonform.Decode(args)
	if err != nil {
		return args, nil // the registry says what is wrong
	}
	large := *r
	large.cfg.MaxChars = maxArguments
	e := &expander{ctx: ctx, reader: &large, session: session, left: maxArguments}
	value, err = e.value(value, schema)
	if err != nil || !e.changed {
		return args, err
	}
	return jsonform.Encode(value)
}

type expander struct {
	ctx     context.Context
	reader  *Reader
	session string
	left    int64 // bytes that contents may still take
	changed bool
}

// value replaces the objects in v. schema is that of v, or nil.
func (e *expander) value(v any, schema *jsonschema.Schema) (any, error) {
	var err error
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v[artifactKey]; ok {
			e.changed = true
			return e.content(v, schema)
		}
		for name, member := range v {
			var inner *jsonschema.Schema
			if schema != nil {
				inner = schema.Properties[name]
			}
			if v[name], err = e.value(member, inner); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, element := range v {
			var inner *jsonschema.Schema
			if schema != nil {
				inner = schema.Items
			}
			if v[i], err = e.value(element, inner); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// content returns the value that an object stands for.
func (e *expander) content(object map[string]any, schema *jsonschema.Schema) (any, error) {
	id, ok := object[artifactKey].(string)
	if !ok || id == "" {
		return nil, tools.Errorf(tools.CodeInvalidArguments, `%s must be the id of an artifact, as in {"$artifact":"ID"}`, artifactKey)
	}
	for name := range object {
		if name != artifactKey && name != "lines" && name != "jq" && name != "base64" {
			return nil, tools.Errorf(tools.CodeInvalidArguments, "%.80q is unknown beside $artifact; known are lines, jq and base64", name)
		}
	}
	want := ""
	if schema != nil {
		want = schema.Type
		for _, t := range schema.Types {
			if t != "null" {
				want = t
			}
		}
	}
	switch {
	case object["lines"] != nil && object["jq"] != nil:
		return nil, tools.Errorf(tools.CodeInvalidArguments, "give either lines or jq beside $artifact")
	case object["base64"] == true && (object["jq"] != nil || object["lines"] != nil && object["lines"] != "1-"):
		return nil, tools.Errorf(tools.CodeInvalidArguments, `base64 passes all bytes: give neither jq nor other lines than "1-" beside it`)
	case object["jq"] != nil:
		return e.query(id, object["jq"], want)
	case object["lines"] != nil && object["base64"] != true:
		text, err := e.lines(id, object["lines"])
		if err != nil {
			return nil, err
		}
		return e.typed(id, text, want)
	}
	text, err := e.all(id, object["base64"] == true, object["lines"] != nil)
	if err != nil {
		return nil, err
	}
	return e.typed(id, text, want)
}

// take counts the bytes of a content.
func (e *expander) take(id string, size int64) error {
	if e.left -= size; e.left < 0 {
		return tools.Errorf(tools.CodeInvalidArguments, "the artifact %.100q is too large for an argument: all contents together may have "+
			"%d bytes; pass a part with lines or jq", id, maxArguments)
	}
	return nil
}

// typed returns a text as the type that the schema wants.
func (e *expander) typed(id, text, want string) (any, error) {
	if want == "" || want == "string" {
		return text, nil
	}
	value, err := jsonform.Decode([]byte(text))
	if err != nil {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "the argument must be of type %s, but the artifact %.100q is not JSON", want, id)
	}
	return value, nil
}

// incomplete refuses an artifact that lacks a part of its result; how says what else the caller can pass.
func incomplete(rec Record, how string) error {
	for _, lost := range rec.Lost() {
		return tools.Errorf(tools.CodeInvalidArguments, "the artifact %q is not complete: %s %s", rec.ID, lost, how)
	}
	return nil
}

// all returns a whole artifact, encoded in base64 or not. One that is not complete must be asked for as a part.
func (e *expander) all(id string, encoded, part bool) (text string, err error) {
	open := e.reader.with
	if encoded {
		open = e.reader.withBytes
	}
	err = open(e.ctx, e.session, id, func(rec Record, c blockContent) error {
		if err := incomplete(rec, `To pass on what there is, add "lines":"1-"`); err != nil && !part {
			return err
		}
		size := c.Size()
		if encoded {
			size = int64(base64.StdEncoding.EncodedLen(int(min(size, maxArguments+1))))
		}
		if err := e.take(id, size); err != nil {
			return err
		}
		data, err := readRange(c, 0, c.Size())
		switch {
		case err != nil:
			return err
		case encoded:
			text = base64.StdEncoding.EncodeToString(data)
		case !utf8.Valid(data):
			return tools.Errorf(tools.CodeInvalidArguments, `the artifact %q is %s and not text; add "base64":true if the tool accepts base64`, rec.ID, rec.MediaType)
		default:
			text = string(data)
		}
		return nil
	})
	return text, err
}

func (e *expander) lines(id string, lines any) (string, error) {
	query, err := ParseLines(lines)
	if err != nil {
		return "", err
	}
	found, err := e.reader.GetByLines(e.ctx, e.session, id, query)
	switch {
	case err != nil:
		return "", err
	case query.StartLine < 0 && len(found.Notes) > 0:
		return "", tools.Errorf(tools.CodeInvalidArguments, "the last lines of the artifact %.100q are lost (%s); count its lines from 1 on", id, found.Notes[0])
	case found.NextCursor != "":
		return "", e.take(id, maxArguments+1)
	case found.Data != nil:
		return "", tools.Errorf(tools.CodeInvalidArguments, "the lines of the artifact %.100q are not text", id)
	}
	return found.Content, e.take(id, int64(len(found.Content)))
}

func (e *expander) query(id string, query any, want string) (any, error) {
	text, ok := query.(string)
	if !ok {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "jq must be a query")
	}
	err := e.reader.withBytes(e.ctx, e.session, id, func(rec Record, _ blockContent) error {
		return incomplete(rec, "To see what a query finds in it, call "+ToolJQ)
	})
	if err != nil {
		return nil, err
	}
	res, err := e.reader.JQ(e.ctx, e.session, id, JQQuery{Query: text})
	if err != nil {
		return nil, err
	}
	size := 0
	for _, result := range res.Results {
		size += len(result)
	}
	if res.Limited {
		size = maxArguments + 1
	}
	if err := e.take(id, int64(size)); err != nil {
		return nil, err
	}
	values := make([]any, len(res.Results))
	for i, result := range res.Results {
		if values[i], err = jsonform.Decode(result); err != nil {
			return nil, err
		}
	}
	if want == "string" {
		return plainText(res.Results, values), nil
	}
	if len(values) == 1 {
		return values[0], nil
	}
	return values, nil
}

// plainText returns the results of a query one per line, and strings without quotes.
func plainText(results []json.RawMessage, values []any) string {
	lines := make([]string, len(results))
	for i, result := range results {
		text, ok := values[i].(string)
		if !ok {
			text = string(result)
		}
		lines[i] = text
	}
	return strings.Join(lines, "\n")
}
