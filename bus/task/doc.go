// Package task finds, watches and cancels calls that are queued or running, and
// reads their stored results.
package task
