package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// formatTimeout is how long Connect waits for the formats. A stream that has no leader does not
// answer; Stream checks its format later.
const formatTimeout = time.Second

// Wants returns the version of the format of a stream or bucket, by its full name, that this
// program uses.
func (s Subjects) Wants(name string) jsapi.Version {
	v, _ := jsapi.ReadVersion(s.StreamOf(Config{}, name).Metadata) // ours
	return v
}

// Formats looks up all streams and buckets that exist, in the order of Streams and Buckets. If some
// of them have another format than this program uses, the error is a *jsapi.FormatError that
// names them all, whether or not the others could be looked up.
func (b *Bus) Formats(ctx context.Context) (found []*jetstream.StreamInfo, err error) {
	all := b.All(b.cfg)
	infos, errs := make([]*jetstream.StreamInfo, len(all)), make([]error, len(all))
	lookUp := func(i int) {
		stream, err := b.LookUp(ctx, all[i].Name)
		if err == nil {
			infos[i] = stream.CachedInfo()
		} else if !errors.Is(err, jetstream.ErrStreamNotFound) {
			errs[i] = fmt.Errorf("look up stream %s: %w", all[i].Name, err)
		}
	}
	lookUp(0)
	if errors.Is(errs[0], nats.ErrPermissionViolation) { // this user may look up no other one
		return nil, errs[0]
	}
	var wg sync.WaitGroup
	for i := 1; i < len(all); i++ {
		wg.Go(func() { lookUp(i) })
	}
	wg.Wait()
	var other jsapi.FormatError
	for _, info := range infos {
		if info == nil {
			continue
		}
		found = append(found, info)
		if d, ok := jsapi.CheckFormat(info, b.Wants(info.Config.Name)); !ok {
			other.Differences = append(other.Differences, d)
		}
	}
	if len(other.Differences) > 0 {
		return found, &other
	}
	return found, errors.Join(errs...)
}

// checkFormats returns a *jsapi.FormatError if the bus has another format, as far as the user may
// look it up and the server answers.
func (b *Bus) checkFormats(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, min(formatTimeout, b.cfg.Timeout))
	defer cancel()
	_, err := b.Formats(ctx)
	if other, ok := errors.AsType[*jsapi.FormatError](err); ok {
		return other
	}
	return nil
}

// checkFormat returns a *jsapi.FormatError if a stream has another format than this program uses.
func (s Subjects) checkFormat(info *jetstream.StreamInfo) error {
	if d, ok := jsapi.CheckFormat(info, s.Wants(info.Config.Name)); !ok {
		return &jsapi.FormatError{Differences: []jsapi.FormatDifference{d}}
	}
	return nil
}
