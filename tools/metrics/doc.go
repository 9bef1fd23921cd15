// Package metrics counts and times what a process does, in the text format of
// Prometheus.
//
// A metric belongs to the process and not to a value: each package declares its own
// metrics as variables, and Write writes those of all packages.
//
// The API that is kept stable does not contain this package; see docs/api.md.
package metrics
