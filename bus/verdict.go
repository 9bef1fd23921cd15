package bus

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Handler handles one delivery. What it returns is its verdict:
//
//	nil              done; the message is acknowledged
//	Reject(...)      hopeless; it becomes a dead letter
//	RetryAfter(...)  again after a pause
//	any other error  again, after a pause that grows with the attempts
//
// ctx ends only when the grace period after a stop is over; a handler that then
// returns an error was interrupted, and its message is handed back without
// counting as an attempt.
type Handler func(ctx context.Context, d *Delivery) error

// rejection is the verdict that makes a dead letter.
type rejection struct {
	code string
	err  error
}

func (r *rejection) Error() string { return r.err.Error() }
func (r *rejection) Unwrap() error { return r.err }

// Reject returns the verdict that a message is hopeless. The code is for
// machines, the error's text for people.
func Reject(code string, err error) error { return &rejection{code: code, err: err} }

// postponement is the verdict that asks for another attempt at a given time.
type postponement struct {
	delay time.Duration
	err   error
}

func (p *postponement) Error() string { return fmt.Sprintf("%v; again in %s", p.err, p.delay) }
func (p *postponement) Unwrap() error { return p.err }

// RetryAfter returns the verdict to try again after a delay, because of err.
func RetryAfter(delay time.Duration, err error) error {
	return &postponement{delay: delay, err: err}
}

// Rejected returns the code of a verdict that Reject made.
func Rejected(err error) (code string, ok bool) {
	r, ok := errors.AsType[*rejection](err)
	if !ok {
		return "", false
	}
	return r.code, true
}

// Postponed returns the delay of a verdict that RetryAfter made.
func Postponed(err error) (delay time.Duration, ok bool) {
	p, ok := errors.AsType[*postponement](err)
	if !ok {
		return 0, false
	}
	return p.delay, true
}
