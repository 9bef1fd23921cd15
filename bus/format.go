package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// FormatError means that a stream or bucket has a format that this program does not
// read. Nothing was changed.
type FormatError = jsapi.FormatError

// checkFormats checks the streams and buckets that exist, before Provision changes
// anything. With update, it takes over those that were never used. Upgrades from earlier
func (b *Bus) checkFormats(ctx context.Context, update bool) error {
	for _, want := range append(b.streams(), b.buckets()...) {
		stream, err := b.js.Stream(ctx, want.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("check the format of stream %s: %w", want.Name, err)
		}
		unused, err := jsapi.CheckFormat(stream.CachedInfo())
		if update && unused {
			config := stream.CachedInfo().Config
			config.Metadata = jsapi.WithFormat(config.Metadata)
			err = b.withProvisionTimeout(ctx, func(ctx context.Context) error {
				_, err := b.js.UpdateStream(ctx, config)
				return err
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
