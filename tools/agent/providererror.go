package agent

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

// Codes of provider errors.
const (
	CodeBadKey          = "bad_key"          // no key, a wrong one, or one without the right
	CodeUnknownModel    = "unknown_model"    // the provider does not have the model
	CodeContextOverflow = "context_overflow" // the conversation is longer than the model takes
	CodeRateLimited     = "rate_limited"     // too many requests; it may heal
	CodeOverloaded      = "overloaded"       // the provider is out of order; it may heal
	CodeNoCredit        = "no_credit"        // the account is used up
	CodeUnreachable     = "unreachable"      // no connection, or it broke; it may heal
	CodeBadRequest      = "bad_request"      // the provider refuses the request
	CodeBadAnswer       = "bad_answer"       // the provider's answer is not understood
	CodeScript          = "script"           // the script does not fit what happened
)

// ProviderError is a turn that did not come. Its text is fit for the user; the
// API key does not occur in it.
type ProviderError struct {
	Code string
	// Status of the HTTP answer; 0 if there was none.
	Status int
	// Message says what the provider said.
	Message string
	// RetryAfter is how long the provider asked to wait; 0 if it did not.
	RetryAfter time.Duration
	// retryable: trying again may help.
	retryable bool
}

func (e *ProviderError) Error() string {
	hint := map[string]string{
		CodeBadKey:          "the model's API key is missing or refused; check it",
		CodeUnknownModel:    "the provider does not know the model; check its name",
		CodeContextOverflow: "the conversation is too long for the model",
		CodeRateLimited:     "the provider limits the rate of requests, and did so until patience ended",
		CodeOverloaded:      "the provider failed, and did so until patience ended",
		CodeNoCredit:        "the account has no credit",
		CodeUnreachable:     "the provider cannot be reached; check the address",
		CodeBadRequest:      "the provider refuses the request",
		CodeBadAnswer:       "the provider's answer is not understood",
		CodeScript:          "the script does not fit",
	}[e.Code]
	if e.Message == "" {
		return hint
	}
	return fmt.Sprintf("%s: %s", hint, e.Message)
}

// maxErrorText bounds what is shown of a provider's error.
const maxErrorText = 600

// apiError makes a ProviderError of an HTTP answer that is no success. Both
// protocols have {"error":{"type","code","message"}}.
func apiError(status int, header http.Header, body []byte, key string) *ProviderError {
	var wire struct {
		Error struct {
			Type    string `json:"type"`
			Code    any    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	// A body that is not of this form is shown as it is.
	isAPI := json.Unmarshal(body, &wire) == nil && wire.Error.Message != ""
	if !isAPI {
		wire.Error.Message = string(body)
	}
	e := &ProviderError{Status: status, Message: cleanError(wire.Error.Message, key), RetryAfter: retryAfter(header)}
	kind, code := wire.Error.Type, fmt.Sprint(wire.Error.Code)
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		e.Code = CodeBadKey
	case code == "insufficient_quota", kind == "billing_error", status == http.StatusPaymentRequired:
		e.Code = CodeNoCredit
	case status == http.StatusRequestEntityTooLarge, code == "context_length_exceeded", status == http.StatusBadRequest && isOverflow(wire.Error.Message):
		e.Code = CodeContextOverflow
	case status == http.StatusNotFound && isAPI:
		e.Code = CodeUnknownModel
	case status == http.StatusNotFound:
		e.Code = CodeUnreachable // somebody's web server
	case status == http.StatusTooManyRequests:
		e.Code, e.retryable = CodeRateLimited, true
	case status >= 500, status == http.StatusRequestTimeout, status == http.StatusConflict:
		e.Code, e.retryable = CodeOverloaded, true
	case status >= 300 && status < 400:
		e.Code, e.Message = CodeUnreachable, fmt.Sprintf("status %d: the address redirects; name the final one", status)
	default:
		e.Code = CodeBadRequest
	}
	if e.Message == "" {
		e.Message = fmt.Sprintf("status %d", status)
	}
	return e
}

func isSet(field json.RawMessage) bool { return len(field) > 0 && string(field) != "null" }

// insideError makes a ProviderError of an error that came in an answer of status
// 200, as servers have it that ask others. Its code may be the status that was
// meant.
func insideError(failure json.RawMessage, header http.Header, key string) *ProviderError {
	var wire struct {
		Code json.Number `json:"code"`
	}
	status := http.StatusBadRequest
	if json.Unmarshal(failure, &wire) == nil {
		if n, err := wire.Code.Int64(); err == nil && n >= 400 && n < 600 {
			status = int(n)
		}
	}
	body, err := encode(map[string]json.RawMessage{"error": failure})
	if err != nil {
		body = failure
	}
	return apiError(status, header, body, key)
}

// isOverflow reads the one thing that the protocols tell in words only.
// Anthropic: "prompt is too long: 210000 tokens > 200000 maximum"; vLLM and
// others: "maximum context length is ...".
func isOverflow(message string) bool {
	message = strings.ToLower(message)
	return strings.Contains(message, "prompt is too long") || strings.Contains(message, "context length") ||
		strings.Contains(message, "context window") || strings.Contains(message, "exceed context limit")
}

// cleanError makes a provider's text fit for a line of ours: without the key,
// of which some servers repeat what they refuse, and without control characters.
func cleanError(text, key string) string {
	if len(key) >= 4 {
		text = strings.ReplaceAll(text, key, "[key]")
	}
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }), " ")
	return tools.Excerpt(strings.ToValidUTF8(text, "\uFFFD"), maxErrorText)
}
