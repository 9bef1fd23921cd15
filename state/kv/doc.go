// Package kv is the state.Store in a bucket of a NATS server, for state that
// several hosts share.
//
// The API that is kept stable does not contain this package; see docs/api.md.
package kv
