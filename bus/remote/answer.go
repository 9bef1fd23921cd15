package remote

import (
	"strings"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// maxMessage is how much of an error message is passed on, in bytes.
	maxMessage = 4 << 10
	// maxForUser is how much the user gets to read, in bytes.
	maxForUser = 16 << 10
)

// result reads an answer. Of what it says only texts are taken, and whether it
// failed: everything else is the worker's to decide.
func (t *Tool) result(msg *nats.Msg) *tools.Result {
	if err := errorOf(msg); err != nil {
		return tools.Failure(err)
	}
	switch {
	case len(msg.Data) > t.cfg.MaxAnswer:
		return tools.Failure(tools.Errorf(tools.CodeToolFailed, "the answer of %s has %d bytes; at most %d are taken", t.def.Name, len(msg.Data), t.cfg.MaxAnswer))
	case !utf8.Valid(msg.Data):
		return tools.Failure(tools.Errorf(tools.CodeToolFailed, "the answer of %s is not text: its %d bytes are not valid UTF-8", t.def.Name, len(msg.Data)))
	}
	answer, err := tools.DecodeRaw(msg.Data)
	if err != nil || answer.ForLLM == nil || strings.HasPrefix(header(msg, "content-type"), "text/") {
		return tools.NewToolResult(string(msg.Data)) // plain text, or JSON of the tool's own
	}
	res := &tools.Result{ForLLM: *answer.ForLLM, ForUser: tools.Excerpt(answer.ForUser, maxForUser), Markdown: answer.Markdown, IsError: answer.IsError}
	if res.IsError {
		res.Err = tools.Errorf(tools.CodeToolFailed, "%s", messageOf(res.ForLLM, "the tool failed"))
		if strings.TrimSpace(res.ForLLM) == "" {
			res.ForLLM = res.Err.Error()
		}
	}
	return res
}

// foreignCodes are the codes that a foreign tool may answer with. The others
// say what the worker did or knows.
var foreignCodes = []string{tools.CodeToolFailed, tools.CodeInvalidArguments, tools.CodeNotFound, tools.CodeTimeout}

// errorOf returns the failure that the headers tell of, or nil.
func errorOf(msg *nats.Msg) error {
	code, message := header(msg, micro.ErrorCodeHeader), header(msg, micro.ErrorHeader)
	if code == "" && message == "" {
		return nil
	}
	for _, known := range foreignCodes {
		if code == known {
			return tools.Errorf(known, "%s", messageOf(message, "the tool failed"))
		}
	}
	text := messageOf(message, "the tool failed")
	if code != "" {
		text += " (code " + tools.Excerpt(code, 80) + ")"
	}
	return tools.Errorf(tools.CodeToolFailed, "%s", text)
}

// header looks a header up whatever its case: not every client keeps that.
func header(msg *nats.Msg, name string) string {
	for key, values := range msg.Header {
		if strings.EqualFold(key, name) && len(values) > 0 {
			return strings.TrimSpace(strings.ToValidUTF8(values[0], "\uFFFD"))
		}
	}
	return ""
}

func messageOf(text, otherwise string) string {
	if strings.TrimSpace(text) == "" {
		return otherwise
	}
	return tools.Excerpt(text, maxMessage)
}
