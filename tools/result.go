package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// Result is the result of a tool. The model receives ForLLM; the user receives
// ForUser, or nothing if Silent is set.
type Result struct {
	// ForLLM is the text for the model.
	ForLLM string `json:"for_llm"`
	UserContent
	// Silent hides the result from the user, including ForUser.
	Silent bool `json:"silent"`
	// IsError marks a failure that the model should react to.
	IsError bool `json:"is_error"`
	// Async marks the start of a job, whose completion will follow.
	Async bool `json:"async"`
	// ExitCode is that of the command that the tool ran, if it did.
	ExitCode *int `json:"exit_code,omitempty"`
	// Artifact describes the stored text of an offloaded result.
	Artifact *Artifact `json:"artifact,omitempty"`

	// Err is the cause of a failure, for logs and code; it is not sent. An *Error in
	// its chain has the code.
	Err error `json:"-"`
	// Output, if not nil, has the text for the model instead of ForLLM, because it
	// may be larger than memory. The consumer of the result closes it.
	Output *Output `json:"-"`
	// Blocks, if not nil, are content blocks of a chat API (a JSON array) for the
	// model instead of ForLLM, such as images.
	Blocks json.RawMessage `json:"blocks,omitempty"`
}

// UserContent is what the user receives of a result: results, raw results and the answers of
// remote tools have these fields.
type UserContent struct {
	// ForUser is the text for the user, who receives it on the call's channel.
	ForUser string `json:"for_user,omitempty"`
	// Markdown says that ForUser is Markdown. Otherwise channels show it as plain
	// text.
	Markdown bool `json:"markdown,omitempty"`
}

// Artifact is the part of an artifact's record that events contain.
type Artifact struct {
	// ID is the artifact's id, a token that is unique in its session.
	ID string `json:"artifact_id"`
	// Type is TEXT, JSON or BINARY.
	Type string `json:"type"`
	// MediaType is the MIME type of the stored bytes.
	MediaType string `json:"media_type,omitempty"`
	// Size is in bytes, Chars in characters (runes), and Tokens is an estimate. Lines
	// is the number of lines; a line feed ends its line.
	Size   int64 `json:"size"`
	Chars  int64 `json:"chars"`
	Tokens int64 `json:"tokens"`
	Lines  int64 `json:"lines"`
	// Digest is "sha256:" and the hexadecimal SHA-256 of the stored bytes.
	Digest string `json:"digest"`
	// Inline says that ForLLM has the whole content, which is also stored.
	Inline bool `json:"inline,omitempty"`
	// Truncated says that the output exceeded the worker's limit.
	Truncated bool `json:"truncated,omitempty"`
}

// NewToolResult returns a result for the model only.
func NewToolResult(forLLM string) *Result { return &Result{ForLLM: forLLM} }

// SilentResult returns a result that is hidden from the user.
func SilentResult(forLLM string) *Result { return &Result{ForLLM: forLLM, Silent: true} }

// AsyncResult returns the first result of a job that continues in the background.
func AsyncResult(forLLM string) *Result { return &Result{ForLLM: forLLM, Async: true} }

// ErrorResult returns a failure with a message for the model.
func ErrorResult(message string) *Result { return &Result{ForLLM: message, IsError: true} }

// UserResult returns a result with one text for the model and the user.
func UserResult(content string) *Result {
	return &Result{ForLLM: content, UserContent: UserContent{ForUser: content}}
}

// WithError sets the cause of a failure and returns r.
func (r *Result) WithError(err error) *Result {
	r.Err = err
	return r
}

// Close closes Output. It may be called twice.
func (r *Result) Close() error {
	if r == nil || r.Output == nil {
		return nil
	}
	return r.Output.Close()
}

// Codes of failures in events. They are for programs; the message is for people and
// models.
const (
	CodeInvalidCall      = "invalid_call"      // a field of the call is missing, malformed or too long
	CodeUnknownTool      = "unknown_tool"      // the worker has no tool of that name
	CodeInvalidArguments = "invalid_arguments" // the arguments do not fit the schema
	CodeMismatch         = "id_mismatch"       // an earlier call with this id had another tool or arguments
	CodeToolFailed       = "tool_failed"       // the tool reported a failure
	CodePanic            = "panic"             // the tool panicked or returned no result
	CodeTimeout          = "timeout"           // the timeout of the tool or the deadline of the call passed
	CodeCancelled        = "cancelled"         // a client cancelled the call
	CodeUnknownOutcome   = "unknown_outcome"   // a once-only tool was interrupted; it may have acted
	CodeDenied           = "denied"            // the call needed an approval and did not get it
	CodeGivenUp          = "given_up"          // every attempt to run the call failed; it has a dead letter
	CodeOffloadFailed    = "offload_failed"    // the store failed
	CodeNotFound         = "not_found"         // no such artifact, task or session
	CodeExpired          = "expired"           // the artifact has expired
)

// Error is a failure with a code and a message for the model and the user.
type Error struct {
	Code    string
	Message string
}

// Errorf returns an *Error.
func Errorf(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string { return e.Message }

// Failure returns the error result of err.
func Failure(err error) *Result { return ErrorResult(err.Error()).WithError(err) }

// SilentFailure returns the error result of err, hidden from the user.
func SilentFailure(err error) *Result {
	res := Failure(err)
	res.Silent = true
	return res
}

// CodeOf returns the code of the first *Error in err's chain. Otherwise it returns
// CodeTimeout or CodeCancelled for the error of an ended context, or CodeToolFailed.
func CodeOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return CodeTimeout
	case errors.Is(err, context.Canceled):
		return CodeCancelled
	}
	return CodeToolFailed
}
