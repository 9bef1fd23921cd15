// Package schema describes the subjects and bodies of the protocol for programs: as JSON
// Schemas and as an AsyncAPI document, both derived from the Go types.
//
// A new subject is one more Operation in contract.go, or in the table of bus/rpc if it is a
// request to the workers.
//
// The API that is kept stable does not contain this package; see docs/api.md.
package schema
