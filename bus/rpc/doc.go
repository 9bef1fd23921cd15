// Package rpc offers request and reply over NATS to clients in any language, and
// its client for Go: submit a call and wait for its result, read artifacts, list,
// get and cancel tasks, manage cron jobs, list tools.
//
// Its subjects are below <prefix>.rpc, which no stream captures: the server would
// answer a captured request with a publish acknowledgement.
package rpc
