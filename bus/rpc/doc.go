// Package rpc asks and answers over request and reply: submit a call and wait
// for its result, and read artifacts, from any language.
//
// Its subjects are below <prefix>.rpc, which no stream captures; a captured
// request would get a publish acknowledgement for an answer.
package rpc
