// Package cli is what the commands share: connection flags, settings from file
// and environment, the data directory, logging and exit codes.
package cli
