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

// DamagedKey is the key in the metadata of a stream or bucket whose value says when the
// embedded server found it damaged, and what was damaged. Provision with update removes it.
const DamagedKey = "stevedore.damaged"

// DamageAdvice says what to do about a damaged stream. Until the server starts again, it
// rejects a message in the place of one that it dropped.
const DamageAdvice = "messages may be lost; check the disk and restore a backup into a new data directory (worker restore --help), or accept the loss: restart \"worker up\", then run \"worker provision --update\""

// checkFormats checks the streams and buckets that exist, before Provision changes
// anything. With update, it takes over those that were never used. Upgrades from earlier
// versions belong here: there are none yet, because 1 is the first version.
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
		config := stream.CachedInfo().Config
		if _, damaged := config.Metadata[DamagedKey]; update && (unused || err == nil && damaged) {
			config.Metadata = jsapi.WithFormat(config.Metadata)
			delete(config.Metadata, DamagedKey)
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
