package offload

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/offload/tables"
	"github.com/stevedore-bus/stevedore/tools"
)

// Names of the tools that read artifacts.
const (
	ToolGet   = "get_knowledge_by_id"
	ToolLines = "get_knowledge_by_lines"
	ToolGrep  = "grep_knowledge"
	ToolJQ    = "jq_knowledge"
	ToolSQL   = "sql_knowledge"
	ToolQuery = "query_artifacts"
	ToolInfo  = "get_tool_result_offload_info"
)

// Reference returns the text that a model gets instead of the content of rec: how to
// read the content, and a description in a frame that the content cannot forge. The
// format of the frame comes from AWorld.
func Reference(rec Record) string {
	var b strings.Builder
	b.WriteString(notice(rec))
	b.WriteString("<knowledge_list description='This is a list of knowledge artifacts'>\n")
	fmt.Fprintf(&b, "<knowledge id='%s' type='%s'", attribute(rec.ID), attribute(rec.Type))
	if rec.MediaType != "" {
		fmt.Fprintf(&b, " media_type='%s'", attribute(rec.MediaType))
	}
	b.WriteString(">\n")
	b.WriteString(description(rec))
	b.WriteString("\n</knowledge>\n</knowledge_list>")
	return b.String()
}

// reference is Reference with a preview that fits into the limit.
func (c Config) reference(rec Record) string {
	text := Reference(rec)
	if over := utf8.RuneCountInString(text) - c.ReferenceChars; c.ReferenceChars > 0 && over > 0 {
		rec.Summary = tools.Excerpt(rec.Summary, max(utf8.RuneCountInString(rec.Summary)-over, 0))
		text = Reference(rec)
	}
	return text
}

// notice says where the result is and names the tools that can read it, best first.
func notice(rec Record) string {
	if rec.Type == TypeBinary {
		return strings.Replace(binaryNotice(rec.ID, rec.MediaType, rec.Size), "The artifact '"+rec.ID+"' is",
			"The result was stored as the artifact '"+rec.ID+"':", 1) + "\n"
	}
	where := "is not shown here"
	if rec.Inline {
		where = "is also shown in full"
	}
	jq := ToolJQ + "(artifact_id, query)"
	grep := ToolGrep + "(artifact_id, pattern)"
	lines := ToolLines + "(artifact_id, start_line, end_line)"
	get := ToolGet + "(artifact_id, offset)"
	sql := ToolSQL + "(artifacts, sql)"
	var use []string
	oneLine := rec.Lines <= 1
	switch {
	case rec.queryable() && oneLine:
		use = []string{jq, grep, get}
	case rec.queryable():
		use = []string{jq, grep, lines, get}
	case oneLine:
		use = []string{grep, get}
	default:
		use = []string{grep, lines, get}
	}
	switch {
	case isMedia(rec.MediaType, mediaCSV, mediaTSV), strings.HasPrefix(rec.Summary, tables.PreviewStart):
		use = slices.Insert(use, 0, sql)
	case isMedia(rec.MediaType, mediaNDJSON, mediaLog), (rec.Type == TypeJSON || rec.markup() != "") && strings.Contains(rec.Summary, elementsOfObjects):
		use = slices.Insert(use, 1, sql)
	}
	return fmt.Sprintf("The result was stored as the artifact '%s' and %s; read what you need of it with %s or %s.\n",
		rec.ID, where, strings.Join(use[:len(use)-1], ", "), use[len(use)-1])
}

// elementsOfObjects is in the previews of documents with arrays or maps of objects.
const elementsOfObjects = ", each: {"

// binary returns the media type of content that is not text, otherwise "".
func (rec Record) binary() string {
	if rec.Type != TypeBinary {
		return ""
	}
	return rec.MediaType
}

// queryable reports whether jq can read the content.
func (rec Record) queryable() bool {
	return rec.Type == TypeJSON || rec.markup() != "" || isMedia(rec.MediaType, mediaJSON, mediaNDJSON, mediaCSV, mediaTSV, mediaLog)
}

// samePreview is the length of the preview of a content that the model has seen before.
const samePreview = 200

// description returns the description of a content and its preview.
func description(rec Record) string {
	var b strings.Builder
	for _, name := range []string{"tool_name", "action_name"} {
		if value := rec.Metadata[name]; value != "" {
			fmt.Fprintf(&b, "%s: %s\n", strings.TrimSuffix(name, "_name"), neutralise(strconv.Quote(tools.Excerpt(value, 100))))
		}
	}
	if rec.Type == TypeBinary {
		fmt.Fprintf(&b, "size: %d bytes of %s, %s\n", rec.Size, attribute(rec.MediaType), whyBinary(rec.MediaType))
	} else {
		fmt.Fprintf(&b, "size: %d characters, about %d tokens, %d lines\n", rec.Chars, rec.Tokens, rec.Lines)
	}
	if charset := rec.charset(); charset != "" {
		fmt.Fprintf(&b, "The bytes are %s; the tools above show them as UTF-8.\n", charset)
	}
	for _, lost := range rec.Lost() {
		b.WriteString(neutralise(lost) + "\n")
	}
	if rec.sameAs != "" {
		fmt.Fprintf(&b, "The content is the same as that of the artifact '%s' of an earlier call.\n", attribute(rec.sameAs))
		rec.Summary = tools.Excerpt(rec.Summary, samePreview)
	}
	if rec.Summary != "" {
		b.WriteString("preview:\n")
		b.WriteString(neutralise(rec.Summary))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Lost says which part of a result an artifact lacks, in one note or none. Each answer about the end or all of it has the note.
func (rec Record) Lost() []string {
	switch stored := rec.Metadata[storedPart]; {
	case stored != "":
		return []string{"The artifact has only " + stored + "; the rest is lost."}
	case rec.Truncated:
		return []string{"The tool printed more than the worker keeps; the rest is lost."}
	}
	return nil
}

// binaryNotice is the sentence that a model gets instead of bytes that are not text.
func binaryNotice(id, mediaType string, size int64) string {
	how := fmt.Sprintf(`to copy the bytes, call write_file with content={"$artifact":"%s","base64":true} and base64=true, or let the user save the artifact`, id)
	if slices.Contains(imageTypes, mediaType) && size <= maxImageFile {
		how = fmt.Sprintf("to see it, call %s(artifact_id); %s", ToolGet, how)
	}
	return NotText(id, mediaType, size) + "; " + how + "."
}

// NotText says what an artifact is whose content cannot be shown as text, and why.
func NotText(id, mediaType string, size int64) string {
	return fmt.Sprintf("The artifact '%s' is %d bytes of %s, %s", id, size, attribute(mediaType), whyBinary(mediaType))
}

// whyBinary says why a content is not shown.
func whyBinary(mediaType string) string {
	if strings.HasPrefix(mediaType, "text/") {
		return "in an encoding other than UTF-8"
	}
	return "which is not text"
}

// frameTag is the start of the names of the reference's elements.
const frameTag = "knowledge"

// neutralise replaces each '<' that could open or close an element of the reference
// by "&lt;", and each byte that is not UTF-8 by \xNN. It ignores case, slashes, white
// space, control characters and everything invisible.
func neutralise(s string) string {
	s = tools.EscapeBytes(s)
	if !strings.Contains(s, "<") {
		return s
	}
	var out strings.Builder
	for i, r := range s {
		if r == '<' && opensFrame(s[i+1:]) {
			out.WriteString("&lt;")
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}

// opensFrame reports whether the text after a '<' spells the tag.
func opensFrame(s string) bool {
	want := frameTag
	for _, r := range s {
		if r == '/' || !visible(r) {
			continue
		}
		c, _ := utf8.DecodeRuneInString(want)
		if !strings.EqualFold(string(r), string(c)) {
			return false
		}
		if want = want[1:]; want == "" {
			return true
		}
	}
	return false
}

// visible reports whether a reader of a tag sees r.
func visible(r rune) bool {
	return unicode.IsGraphic(r) && !unicode.IsSpace(r) && !unicode.In(r, unicode.Mn, unicode.Me, unicode.Other_Default_Ignorable_Code_Point)
}

var attributeEscaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;", "\n", " ", "\r", " ")

// attribute makes a value safe between single quotes.
func attribute(s string) string {
	return attributeEscaper.Replace(strings.ToValidUTF8(s, "\uFFFD"))
}
