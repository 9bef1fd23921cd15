package offload

import "time"

// StoreConfig configures any store. The zero value works.
type StoreConfig struct {
	// TTL is how long the store keeps an artifact after it was put or last read.
	// For another TTL, the store answers ErrExpired; after that, ErrNotFound.
	// Default 7 days.
	TTL time.Duration
	// Quota is the maximum number of bytes of all blobs together; a Put that would
	// exceed it returns ErrQuota. 0 means no limit. Expired artifacts count until
	// they are swept; an Offloader sweeps a full store once before it reports
	// ErrQuota. The stored blobs never exceed the quota, also if several processes put
	// at once; the bytes of Puts that have not ended may.
	Quota int64
	// Now returns the current time. Default time.Now.
	Now func() time.Time
}
