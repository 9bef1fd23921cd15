// Package durable replaces files so that a crash leaves the old or the new
// content, appends whole lines, and locks files and directories.
//
// The API that is kept stable does not contain this package; see docs/api.md.
package durable
