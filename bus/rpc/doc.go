// Package rpc asks and answers over request and reply, from any language: submit
// a call and wait for its result, read artifacts, see and cancel tasks, keep
// jobs, list tools.
//
// Its subjects are below <prefix>.rpc, which no stream captures; a captured
// request would get a publish acknowledgement for an answer.
package rpc
