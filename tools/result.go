package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// Result is what a tool answered. ForLLM is always for the model; what the user
// sees is ForUser, or nothing if Silent.
type Result struct {
	// ForLLM is the text that the model gets.
	ForLLM string `json:"for_llm"`
	// ForUser is the text that the user gets, through the call's channel.
	ForUser string `json:"for_user,omitempty"`
	// Markdown says that ForUser is written in it, as models do. Otherwise
	// channels show it as it is.
	Markdown bool `json:"markdown,omitempty"`
	// Silent keeps everything from the user, ForUser included.
	Silent bool `json:"silent"`
	// IsError marks a failure that the model should know of and react to.
	IsError bool `json:"is_error"`
	// Async marks a job that was started and will report back with a
	// completion of its own.
	Async bool `json:"async"`
	// Artifact describes where the whole text is, once it was offloaded.
	Artifact *Artifact `json:"artifact,omitempty"`

	// Err is the cause of a failure, for logs and for code; it is not sent.
	// An *Error in its chain gives the code.
	Err error `json:"-"`
	// Output, if not nil, holds the whole text for the model instead of
	// ForLLM, because it may be larger than memory. Whoever consumes the
	// result closes it.
	Output *Output `json:"-"`
	// Blocks, if not nil, are content blocks (a JSON array, as the chat APIs
	// define them) that the model should get instead of ForLLM, such as images.
	Blocks json.RawMessage `json:"blocks,omitempty"`
}

// Artifact is the part of an offloaded result's record that travels in events.
// Everything in it was made by Stevedore, so that readers need not parse text.
type Artifact struct {
	// ID is the artifact's id, a Token; with the session it names the record.
	ID string `json:"artifact_id"`
	// Type is TEXT, JSON or BINARY.
	Type string `json:"type"`
	// MediaType is the MIME type of the stored bytes.
	MediaType string `json:"media_type,omitempty"`
	// Size is in bytes, Chars in characters (runes), Tokens an estimate; Lines
	// counts the pieces that splitting at \n gives.
	Size   int64 `json:"size"`
	Chars  int64 `json:"chars"`
	Tokens int64 `json:"tokens"`
	Lines  int64 `json:"lines"`
	// Digest is "sha256:" and the hexadecimal SHA-256 of the stored bytes.
	Digest string `json:"digest"`
	// Inline says that ForLLM is the whole content, stored as well.
	Inline bool `json:"inline,omitempty"`
	// Truncated says that the tool printed more than the worker keeps.
	Truncated bool `json:"truncated,omitempty"`
}

// NewToolResult returns a plain result: the text goes to the model only.
func NewToolResult(forLLM string) *Result { return &Result{ForLLM: forLLM} }

// SilentResult returns a result that never reaches the user.
func SilentResult(forLLM string) *Result { return &Result{ForLLM: forLLM, Silent: true} }

// AsyncResult returns the first answer of a job that goes on in the background.
func AsyncResult(forLLM string) *Result { return &Result{ForLLM: forLLM, Async: true} }

// ErrorResult returns a failure, told to the model in message.
func ErrorResult(message string) *Result { return &Result{ForLLM: message, IsError: true} }

// UserResult returns one text for both the model and the user.
func UserResult(content string) *Result { return &Result{ForLLM: content, ForUser: content} }

// WithError sets the cause of a failure and returns r.
func (r *Result) WithError(err error) *Result {
	r.Err = err
	return r
}

// Close releases what the result holds outside memory. It may be called twice.
func (r *Result) Close() error {
	if r == nil || r.Output == nil {
		return nil
	}
	return r.Output.Close()
}

// Codes of failures, as they stand in events. They are for machines; the
// message is for people and models.
const (
	CodeInvalidCall      = "invalid_call"      // the call lacks something or is oversized
	CodeUnknownTool      = "unknown_tool"      // no tool of that name here
	CodeInvalidArguments = "invalid_arguments" // the arguments do not fit the schema
	CodeMismatch         = "id_mismatch"       // the id was used before with another tool or arguments
	CodeToolFailed       = "tool_failed"       // the tool says that it failed
	CodePanic            = "panic"             // the tool panicked or answered nothing
	CodeTimeout          = "timeout"           // the tool or the call ran out of time
	CodeCancelled        = "cancelled"         // somebody cancelled the call
	CodeUnknownOutcome   = "unknown_outcome"   // a once-only tool was interrupted; it may have acted
	CodeGivenUp          = "given_up"          // every attempt to run the call failed; it has a dead letter
	CodeOffloadFailed    = "offload_failed"    // the result could not be stored
	CodeNotFound         = "not_found"         // no such artifact, task or session
	CodeExpired          = "expired"           // the artifact was there once
)

// Error is a failure with a code. Its message is fit for the model and the user.
type Error struct {
	Code    string
	Message string
}

// Errorf returns an *Error.
func Errorf(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string { return e.Message }

// Failure returns the error result of err: its message for the model, its code
// for machines.
func Failure(err error) *Result { return ErrorResult(err.Error()).WithError(err) }

// CodeOf returns the code of the first *Error in err's chain. An error of a
// context that ended has the code that says so; any other is CodeToolFailed.
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
