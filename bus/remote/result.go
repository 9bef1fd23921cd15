package remote

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// maxMessage bounds an error message, in bytes.
	maxMessage = 4 << 10
	// maxForUser bounds the text for the user, in bytes.
	maxForUser = 16 << 10
)

// result reads a response. It uses only the texts and whether the tool failed; the
// worker decides everything else.
func (t *Tool) result(msg *nats.Msg) *tools.Result {
	if err := errorOf(msg); err != nil {
		return tools.Failure(err)
	}
	switch {
	case len(msg.Data) > t.cfg.MaxResult:
		return tools.Failure(tools.Errorf(tools.CodeToolFailed, "the response of %s has %d bytes; at most %d are accepted", t.def.Name,
			len(msg.Data), t.cfg.MaxResult))
	case !utf8.Valid(msg.Data):
		out := tools.NewOutput(tools.OutputLimits{Memory: int64(len(msg.Data)), Total: int64(len(msg.Data))})
		if _, err := out.Write(msg.Data); err != nil {
			return tools.Failure(err)
		}
		return &tools.Result{Output: out} // a text would lose bytes
	}
	response, err := tools.DecodeRaw(msg.Data)
	if err != nil || response.ForLLM == nil || strings.HasPrefix(header(msg, "content-type"), "text/") {
		return tools.NewToolResult(string(msg.Data)) // plain text or other JSON
	}
	res := &tools.Result{ForLLM: *response.ForLLM, UserContent: response.UserContent, IsError: response.IsError}
	res.ForUser = tools.Excerpt(res.ForUser, maxForUser)
	if res.IsError {
		res.Err = tools.Errorf(tools.CodeToolFailed, "%s", messageOf(res.ForLLM))
		if strings.TrimSpace(res.ForLLM) == "" {
			res.ForLLM = res.Err.Error()
		}
	}
	return res
}

// foreignCodes are the codes that a tool may set. Only the worker sets the others.
var foreignCodes = []string{tools.CodeToolFailed, tools.CodeInvalidArguments, tools.CodeNotFound, tools.CodeTimeout}

// errorOf returns the failure in the headers, or nil.
func errorOf(msg *nats.Msg) error {
	code, message := header(msg, micro.ErrorCodeHeader), header(msg, micro.ErrorHeader)
	if code == "" && message == "" {
		return nil
	}
	text := messageOf(message)
	if slices.Contains(foreignCodes, code) {
		return tools.Errorf(code, "%s", text)
	}
	if code != "" {
		text += " (code " + tools.Excerpt(code, 80) + ")"
	}
	return tools.Errorf(tools.CodeToolFailed, "%s", text)
}

// header returns a header, ignoring case, because some clients change it.
func header(msg *nats.Msg, name string) string {
	for key, values := range msg.Header {
		if strings.EqualFold(key, name) && len(values) > 0 {
			return strings.TrimSpace(strings.ToValidUTF8(values[0], "\uFFFD"))
		}
	}
	return ""
}

func messageOf(text string) string {
	if strings.TrimSpace(text) == "" {
		return "the tool failed"
	}
	return tools.Excerpt(text, maxMessage)
}
