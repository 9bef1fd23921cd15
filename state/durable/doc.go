// Package durable replaces files so that a crash leaves the old or the new
// content, appends whole lines, and locks files and directories.
package durable
