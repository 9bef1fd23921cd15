package bus

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// sizedStreams returns the streams whose size Config.StreamBytes can set, in lower case. The
// stream of the schedules has no limit.
func (s Subjects) sizedStreams(all []jetstream.StreamConfig) []string {
	var names []string
	for _, stream := range all {
		if stream.MaxBytes > 0 {
			names = append(names, s.shortName(stream.Name))
		}
	}
	return names
}

// shortName returns the name of a stream without the prefix, in lower case.
func (s Subjects) shortName(stream string) string {
	return strings.ToLower(strings.TrimPrefix(stream, s.StreamName("")))
}

// checkStreamBytes returns an error if Config.StreamBytes names no stream.
func (b *Bus) checkStreamBytes() error {
	known := b.sizedStreams(b.streams())
	for name := range b.cfg.StreamBytes {
		if !slices.Contains(known, name) {
			return fmt.Errorf("there is no stream %q with a size; want one of %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// limitedStreams returns the configurations of the streams with the configured sizes and
// ages.
func (b *Bus) limitedStreams() []jetstream.StreamConfig {
	all := b.streams()
	for i := range all {
		if size := b.cfg.StreamBytes[b.shortName(all[i].Name)]; size > 0 {
			all[i].MaxBytes = size
		}
		if all[i].Name == b.StreamName(Results) && b.cfg.ResultsTTL > 0 {
			all[i].MaxAge = b.cfg.ResultsTTL
			all[i].Duplicates = min(all[i].Duplicates, all[i].MaxAge) // the server wants this
		}
	}
	return all
}

// hasSize reports whether the size of a stream is configured.
func (b *Bus) hasSize(stream string) bool {
	return b.cfg.MaxBytes > 0 || b.cfg.StreamBytes[b.shortName(stream)] > 0
}

// keepLimits sets those limits in want that are not configured to those of have.
func (b *Bus) keepLimits(want *jetstream.StreamConfig, have jetstream.StreamConfig) {
	if !b.hasSize(want.Name) {
		want.MaxBytes = have.MaxBytes
	}
	if want.Name == b.StreamName(Results) && b.cfg.ResultsTTL <= 0 {
		want.MaxAge = have.MaxAge
	}
}

// FormatBytes returns a number of bytes for people, such as "16 MiB" or "1.5 GiB".
func FormatBytes(n int64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	value, unit := float64(n), 0
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	return strings.TrimSuffix(strconv.FormatFloat(value, 'f', 1, 64), ".0") + " " + units[unit]
}

// ApplyLimits changes the size and age of existing streams to the configured ones.
func (b *Bus) ApplyLimits(ctx context.Context) error {
	for _, want := range b.limitedStreams() {
		stream, err := b.js.Stream(ctx, want.Name)
		if err != nil {
			return fmt.Errorf("stream %s: %w", want.Name, err)
		}
		config := stream.CachedInfo().Config
		b.keepLimits(&want, config)
		if config.MaxBytes == want.MaxBytes && config.MaxAge == want.MaxAge {
			continue
		}
		config.MaxBytes, config.MaxAge, config.Duplicates = want.MaxBytes, want.MaxAge, min(config.Duplicates, want.Duplicates)
		err = b.withProvisionTimeout(ctx, func(ctx context.Context) error {
			_, err := b.js.UpdateStream(ctx, config)
			return err
		})
		if err != nil {
			return fmt.Errorf("change the limits of stream %s: %w", want.Name, err)
		}
	}
	return nil
}

// IsLimit reports whether the setting is the size or the age of a stream, which
// ApplyLimits changes.
func (d Difference) IsLimit() bool { return d.Setting == "max_bytes" || d.Setting == "max_age" }
