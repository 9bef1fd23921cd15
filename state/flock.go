package state

import (
	"fmt"
	"os"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// lock takes the advisory lock that processes sharing the file hold while they
// save, and returns what releases it. The lock is on a file of its own, because
// each save replaces the other one.
//
// It asks again and again instead of waiting in the kernel, so that a stopped
// process that holds the lock is an error in the end and not a hang.
func (f *File) lock() (unlock func(), err error) {
	name := f.path + ".lock"
	lock, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, explainReadOnly(err, f.path)
	}
	unlock = func() { lock.Close() } // the lock goes with the descriptor

	ok, err := tryLock(lock)
	if err == nil && !ok {
		policy := backoff.NewExponentialBackOff(
			backoff.WithInitialInterval(200*time.Microsecond),
			backoff.WithMaxInterval(2*time.Millisecond),
			backoff.WithMaxElapsedTime(f.config.LockTimeout))
		err = backoff.Retry(func() error {
			ok, err := tryLock(lock)
			if err != nil {
				return backoff.Permanent(err)
			}
			if !ok {
				return fmt.Errorf("another process has held %q for %v; see whether it hangs", name, f.config.LockTimeout)
			}
			return nil
		}, policy)
	}
	if err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}
