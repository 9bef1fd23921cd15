package jsapi

import (
	"fmt"
	"maps"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"
)

// FormatKey is the key in the metadata of each stream and bucket whose value is the
// version of the format: of its subjects, its messages and its configuration.
const FormatKey = "stevedore.format"

// Format is the version that this program reads and writes. The streams have one version
// together. A change of a stored format raises it; nothing is upgraded, because nothing was
// released.
const Format = 3

// FormatError means that a stream has a format that this program does not read. The
// stream was not changed.
type FormatError struct {
	Stream, Problem, Advice string
	// Unused is set if the stream never had a message.
	Unused bool
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("stream %s %s; this program reads version %d%s", e.Stream, e.Problem, Format, e.Advice)
}

// WithFormat returns a copy of metadata that contains the version.
func WithFormat(metadata map[string]string) map[string]string {
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]string{}
	}
	metadata[FormatKey] = strconv.Itoa(Format)
	return metadata
}

// CheckFormat returns a *FormatError unless the stream has the version of this program.
// Of a stream that never had a message and has no version, unused is true.
func CheckFormat(info *jetstream.StreamInfo) (unused bool, err error) {
	name := info.Config.Name
	text, ok := info.Config.Metadata[FormatKey]
	version, numErr := strconv.Atoi(text)
	fail := func(problem, advice string) (bool, error) {
		return false, &FormatError{Stream: name, Problem: problem, Advice: "; " + advice}
	}
	switch {
	case !ok && info.State.LastSeq == 0:
		return true, &FormatError{Stream: name, Problem: "has no format version (it was never used)", Unused: true}
	case !ok:
		return fail("has no format version: an unreleased version of Stevedore or another program created it", fmt.Sprintf(
			"finish its work with that version and delete the stream (nats stream rm %s); if its messages are certain to have this format, run: nats stream edit %s --metadata %s=%d",
			name, name, FormatKey, Format))
	case numErr != nil || version < 1:
		return fail(fmt.Sprintf("has a damaged format version (metadata %s is %q)", FormatKey, text),
			fmt.Sprintf("correct it: nats stream edit %s --metadata %s=VERSION", name, FormatKey))
	case version > Format:
		return fail(fmt.Sprintf("has version %d of the format", version), "use the version of Stevedore that provisioned it, or a later one")
	case version < Format:
		return fail(fmt.Sprintf("has version %d of the format", version), "finish its work with the version of Stevedore that provisioned it, and delete the stream: nats stream rm "+name)
	}
	return false, nil
}
