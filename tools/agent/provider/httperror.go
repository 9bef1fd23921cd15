package provider

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/jsonform"
)

// maxErrorText is how much of a provider's error message users see, in bytes.
const maxErrorText = 600

// wireError is an error of an API.
type wireError struct {
	Type    string `json:"type"`
	Code    any    `json:"code"`
	Message string `json:"message"`
}

// httpError classifies a response whose status is not 200. Both APIs report
// errors as {"error":{"type","code","message"}}, and vLLM as {"object":"error","message",...};
// httpError shows any other body unchanged.
func httpError(status int, header http.Header, body []byte, key string) *agent.ProviderError {
	var wire struct {
		Error  wireError `json:"error"`
		Object string    `json:"object"`
		wireError
	}
	err := json.Unmarshal(bytes.Trim(bytes.TrimSpace(body), "[]"), &wire) // Gemini sends a list of one error
	if wire.Object == "error" {
		wire.Error = wire.wireError
	}
	isAPI := err == nil && wire.Error.Message != ""
	if !isAPI {
		wire.Error.Message = string(body)
	}
	e := &agent.ProviderError{Status: status, Message: cleanError(wire.Error.Message, key), RetryAfter: retryAfter(header)}
	kind, code := wire.Error.Type, fmt.Sprint(wire.Error.Code)
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		e.Code = agent.CodeBadKey
	case code == "insufficient_quota", kind == "billing_error", status == http.StatusPaymentRequired,
		strings.Contains(strings.ToLower(wire.Error.Message), "credit balance"): // Anthropic answers with 400
		e.Code = agent.CodeNoCredit
	case status == http.StatusRequestEntityTooLarge, code == "context_length_exceeded", status == http.StatusBadRequest && isOverflow(wire.Error.Message):
		e.Code = agent.CodeContextOverflow
	case status == http.StatusNotFound && isAPI:
		e.Code = agent.CodeUnknownModel
	case status == http.StatusNotFound:
		e.Code = agent.CodeUnreachable // a web server that is not a model API
	case status == http.StatusTooManyRequests:
		e.Code, e.Retryable = agent.CodeRateLimited, true
	case status >= 500, status == http.StatusRequestTimeout, status == http.StatusConflict:
		e.Code, e.Retryable = agent.CodeOverloaded, true
	case status >= 300 && status < 400:
		e.Code, e.Message = agent.CodeUnreachable, fmt.Sprintf("status %d: the server redirects to another address; configure that address", status)
	default:
		e.Code = agent.CodeBadRequest
	}
	e.Message = cmp.Or(e.Message, fmt.Sprintf("status %d", status))
	return e
}

// errorTypes are the statuses of the types of errors that the Messages API documents.
var errorTypes = map[string]int{
	"invalid_request_error": 400, "authentication_error": 401, "billing_error": 402, "permission_error": 403,
	"not_found_error": 404, "request_too_large": 413, "rate_limit_error": 429, "api_error": 500,
	"timeout_error": 504, "overloaded_error": 529,
}

// embeddedError classifies an error in an answer with status 200. Servers that
// forward requests, such as OpenRouter, send one, and all servers whose stream fails.
// Its code may be the status of the server behind them. An error that says nothing
// about its cause is temporary if the answer has begun.
func embeddedError(failure json.RawMessage, header http.Header, key string, started bool) *agent.ProviderError {
	status, text := http.StatusBadRequest, strings.ToLower(string(failure))
	switch {
	case strings.Contains(text, "overloaded"), strings.Contains(text, "server_error"):
		status = http.StatusServiceUnavailable
	case strings.Contains(text, "rate_limit"):
		status = http.StatusTooManyRequests
	case started:
		status = http.StatusInternalServerError
	}
	var wire map[string]json.RawMessage
	_ = json.Unmarshal(failure, &wire) // it may have any form
	if known, ok := errorTypes[stringOf(wire["type"])]; ok {
		status = known
	}
	var code json.Number
	_ = json.Unmarshal(wire["code"], &code)
	if n, err := code.Int64(); err == nil && n >= 400 && n < 600 {
		status = int(n)
	}
	body, _ := jsonform.Encode(map[string]json.RawMessage{"error": failure}) // a part of JSON does not fail
	return httpError(status, header, body, key)
}

// overflowTexts are parts of the messages by which providers report a context
// overflow, because no API has a code for it: Anthropic (twice), vLLM and others,
// llama.cpp, Gemini, Bedrock.
var overflowTexts = []string{
	"prompt is too long", "exceed context limit", "context length", "context window",
	"available context size", "exceeds the maximum number of tokens", "input is too long",
}

func isOverflow(message string) bool {
	message = strings.ToLower(message)
	return slices.ContainsFunc(overflowTexts, func(text string) bool { return strings.Contains(message, text) })
}

// cleanError makes one safe line of a provider's text: without control characters,
// with visible escapes for other invisible ones, and without the key, which some
// servers repeat when they reject it.
func cleanError(text, key string) string {
	text = tools.Redact(text, key)
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }), " ")
	return tools.Excerpt(tools.EscapeLine(strings.ToValidUTF8(text, "\uFFFD")), maxErrorText)
}

// unreachable is the error of a request without a complete response.
func unreachable(err error, key string) *agent.ProviderError {
	return &agent.ProviderError{Code: agent.CodeUnreachable, Message: cleanError(err.Error(), key), Retryable: true}
}

func badAnswer(format string, args ...any) *agent.ProviderError {
	return &agent.ProviderError{Code: agent.CodeBadAnswer, Message: fmt.Sprintf(format, args...)}
}
