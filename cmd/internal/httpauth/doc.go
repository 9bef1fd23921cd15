// Package httpauth guards HTTP endpoints: who may connect, from which page, under which
// name, and as whom.
//
//	guard   New, Guard.Handler: Host, Origin, token, identity, headers
//	cookie  the exchange of a token in a URL for a cookie
//	serve   Listen on loopback by default; Serve with limits
//
// A loopback address is not authentication: every program and every web page of this
// machine can send requests to it. Therefore each request needs a token.
package httpauth
