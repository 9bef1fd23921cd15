package offload

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
)

// Names of the tools that read artifacts.
const (
	ToolGet   = "get_knowledge_by_id"
	ToolLines = "get_knowledge_by_lines"
	ToolGrep  = "grep_knowledge"
	ToolJQ    = "jq_knowledge"
	ToolQuery = "query_artifacts"
	ToolInfo  = "get_tool_result_offload_info"
)

// Reference returns the text that a model gets instead of the content of rec: how to
// read the content, and a description in a frame that the content cannot forge. The
// format of the frame comes from AWorld.
func Reference(rec Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The result was stored as the artifact '%s', because it is too long to be shown here whole; read what you need of it with %s(artifact_id, start_line, end_line), %s(artifact_id, pattern), ",
		rec.ID, ToolLines, ToolGrep)
	if rec.Type == TypeJSON {
		fmt.Fprintf(&b, "%s(artifact_id, query), ", ToolJQ)
	}
	fmt.Fprintf(&b, "or %s(artifact_id, offset).\n", ToolGet)

	b.WriteString("<knowledge_list description='This is a list of knowledge artifacts'>\n")
	fmt.Fprintf(&b, "<knowledge id='%s' type='%s'", attribute(rec.ID), attribute(rec.Type))
	if rec.MediaType != "" {
		fmt.Fprintf(&b, " media_type='%s'", attribute(rec.MediaType))
	}
	b.WriteString(">\n")
	b.WriteString(describe(rec))
	b.WriteString("\n</knowledge>\n</knowledge_list>")
	return b.String()
}

// describe returns the description of a content and its preview.
func describe(rec Record) string {
	var b strings.Builder
	for _, name := range []string{"tool_name", "action_name"} {
		if value := rec.Metadata[name]; value != "" {
			fmt.Fprintf(&b, "%s: %s\n", strings.TrimSuffix(name, "_name"), neutralise(strconv.Quote(tools.Excerpt(value, 100))))
		}
	}
	if rec.Type == TypeBinary {
		fmt.Fprintf(&b, "size: %d bytes of %s, which is not text\n", rec.Size, attribute(rec.MediaType))
	} else {
		fmt.Fprintf(&b, "size: %d characters, about %d tokens, %d lines\n", rec.Chars, rec.Tokens, rec.Lines)
	}
	if rec.Truncated {
		b.WriteString("The tool printed more than the worker keeps; the rest is lost.\n")
	}
	if rec.Summary != "" {
		b.WriteString("preview:\n")
		b.WriteString(neutralise(rec.Summary))
	}
	return strings.TrimSuffix(b.String(), "\n")
}
