// Package schema describes the bodies of the protocol for programs, as JSON
// Schemas that are derived from the Go types.
//
// The API that is kept stable does not contain this package; see docs/api.md.
package schema
