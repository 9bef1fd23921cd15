// Package integration holds what tests the whole system from outside: scripts,
// crashes, clients in other languages, and the rules about who imports whom.
package integration
