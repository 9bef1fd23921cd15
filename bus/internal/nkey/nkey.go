// Package nkey logs in to a server with a key in a file that may be replaced.
package nkey

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// Key logs in with the nkey that is in a file at each connect. The option of the
// client reads the file for each signature too, but it sends the public key of the first
// connect, which the server compares.
type Key struct {
	file string
	conn atomic.Pointer[nats.Conn]
	sent atomic.Pointer[string] // the public key of the next connect
}

// New returns the key of a file. It does not read the file.
func New(file string) *Key { return &Key{file: file} }

// Connected sets the connection whose reconnects use the key.
func (k *Key) Connected(nc *nats.Conn) { k.conn.Store(nc) }

// Options returns the options of a connection that logs in with the key.
func (k *Key) Options() ([]nats.Option, error) {
	public, _, err := k.read(nil)
	if err != nil {
		return nil, fmt.Errorf("nkey %q: %w", k.file, err)
	}
	k.sent.Store(&public)
	return []nats.Option{nats.Nkey(public, k.sign), nats.ReconnectToServer(func([]nats.Server, nats.ServerInfo) (*nats.Server, time.Duration) {
		k.refresh()
		return nil, 0 // the client chooses the server
	})}, nil
}

// refresh sets the public key of the next connect. The client calls it with its lock held,
// so that nobody else uses the options.
func (k *Key) refresh() {
	nc := k.conn.Load()
	if public, _, err := k.read(nil); err == nil && nc != nil {
		nc.Opts.Nkey = public
		k.sent.Store(&public)
	}
}

// sign fails if the file has changed since refresh. Then the client tries again; two
// wrong signatures would make it give up.
func (k *Key) sign(nonce []byte) ([]byte, error) {
	public, signature, err := k.read(nonce)
	if err == nil && public != *k.sent.Load() {
		err = errors.New("the key was just replaced")
	}
	return signature, err
}

// read returns the public key of the file and the signature of the nonce.
func (k *Key) read(nonce []byte) (public string, signature []byte, err error) {
	seed, err := os.ReadFile(k.file)
	if err != nil {
		return "", nil, err
	}
	pair, err := nkeys.ParseDecoratedNKey(seed)
	clear(seed)
	if err != nil {
		return "", nil, err
	}
	defer pair.Wipe()
	if public, err = pair.PublicKey(); err != nil {
		return "", nil, err
	}
	if !nkeys.IsValidPublicUserKey(public) {
		return "", nil, errors.New("it is not the seed of a user")
	}
	signature, err = pair.Sign(nonce)
	return public, signature, err
}
