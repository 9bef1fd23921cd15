package admin

import (
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// checkStreamBytes returns an error if Config.StreamBytes names no stream with a size. The
// stream of the schedules has none.
func checkStreamBytes(b *bus.Bus) error {
	var known []string
	for _, stream := range b.Streams(b.Config()) {
		if stream.MaxBytes > 0 {
			known = append(known, b.ShortName(stream.Name))
		}
	}
	for name := range b.Config().StreamBytes {
		if !slices.Contains(known, name) {
			return tools.Errorf(tools.CodeInvalidArguments, "there is no stream %q with a size; want one of %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// hasSize reports whether the size of a stream is configured.
func hasSize(b *bus.Bus, stream string) bool {
	return b.Config().MaxBytes > 0 || b.Config().StreamBytes[b.ShortName(stream)] > 0
}

// isBlobs reports whether a stream is that of the blobs. Its size is what the server has left.
func isBlobs(b *bus.Bus, stream string) bool { return stream == "OBJ_"+b.BucketName(bus.BlobsBucket) }

// keepLimits sets those limits in want that are not configured to those of have.
func keepLimits(b *bus.Bus, want *jetstream.StreamConfig, have jetstream.StreamConfig) {
	if b.Config().Replicas <= 0 {
		want.Replicas = have.Replicas
	}
	ofDisk := b.Config().DiskSpace > 0 && isBlobs(b, want.Name) // it changes with the disk
	if !hasSize(b, want.Name) && !ofDisk && !want.AllowMsgSchedules {
		want.MaxBytes = have.MaxBytes
	}
	if configured := want.Name == b.StreamName(bus.Results) && b.Config().ResultsTTL > 0; want.MaxAge > 0 && !configured {
		want.MaxAge = have.MaxAge
		if want.MaxAge > 0 { // the server wants this
			want.Duplicates = min(want.Duplicates, want.MaxAge)
		}
	}
}
