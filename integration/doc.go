// Package integration tests the whole system from outside: processes that are killed,
// clients in other languages, and the rules about which package imports which.
package integration
