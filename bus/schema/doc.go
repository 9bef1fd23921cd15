// Package schema describes the subjects and bodies of the protocol for programs: as JSON
// Schemas and as an AsyncAPI document, both derived from the Go types.
//
// A new subject is one more Operation in contract.go.
package schema
