// Package serverconfig writes the configuration of a NATS server that keeps tenants, and
// the roles in a tenant, apart.
//
// A tenant is an account with its own streams, workers and buckets. A client that need
// not see the whole tenant has an account of its own that imports only its subjects:
// the server checks what a client publishes and subscribes, but not where it lets a
// service reply, so permissions in a shared account are not enough.
package serverconfig
