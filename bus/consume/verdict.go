package consume

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Handler handles one delivery. The returned error is its verdict:
//
//	nil              acknowledge the message
//	Reject(...)      give the message up: store it as a dead letter
//	RetryAfter(...)  redeliver it after a delay; without an error, no attempt failed
//	any other error  redeliver it after a delay that grows with the attempts
//
// ctx ends only after the grace period of a stop. If the handler then returns an
// error, the message is requeued. Config.ShouldRetry decides whether that delivery
// was an attempt.
type Handler func(ctx context.Context, d *Delivery) error

// Codes of messages that are given up; handlers may have others.
const (
	CodeUndecodable = "undecodable"        // the message cannot be decoded
	CodePoison      = "poison"             // every worker that handled the message died or could not settle it
	CodeExhausted   = "attempts_exhausted" // the last attempt failed
)

// rejection is the verdict of Reject.
type rejection struct {
	code string
	err  error
}

func (r *rejection) Error() string { return r.err.Error() }
func (r *rejection) Unwrap() error { return r.err }

// Reject returns the verdict that no attempt can succeed. The code is for programs,
// the text of the error for people.
func Reject(code string, err error) error { return &rejection{code: code, err: err} }

// postponement is the verdict of RetryAfter.
type postponement struct {
	delay time.Duration
	err   error
}

func (p *postponement) Error() string { return fmt.Sprintf("%v; retry in %s", p.err, p.delay) }
func (p *postponement) Unwrap() error { return p.err }

// RetryAfter returns the verdict to retry after a delay, because of err. A nil err is
// not logged, and the message does not become a dead letter because of it.
func RetryAfter(delay time.Duration, err error) error {
	return &postponement{delay: delay, err: err}
}

// Rejected returns the code of a verdict of Reject.
func Rejected(err error) (code string, ok bool) {
	if r, ok := errors.AsType[*rejection](err); ok {
		return r.code, true
	}
	return "", false
}

// Postponed returns the delay of a verdict of RetryAfter.
func Postponed(err error) (delay time.Duration, ok bool) {
	if p, ok := errors.AsType[*postponement](err); ok {
		return p.delay, true
	}
	return 0, false
}
