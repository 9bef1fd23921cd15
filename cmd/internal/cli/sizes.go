package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/bus"
)

// MaxBytesFlag adds --max-bytes, the sizes of the streams, which set Config.MaxBytes and
// Config.StreamBytes.
func MaxBytesFlag(flags *pflag.FlagSet, cfg *bus.Config, more string) {
	help := "`BYTES` that a stream may hold (four times as much for results), or STREAM=BYTES,... for single ones, " +
		"such as results=8GiB,calls=512MiB; default 1 GiB" + more
	Settings(flags, func(flags *pflag.FlagSet) { flags.Var(&streamSizes{cfg: cfg}, "max-bytes", help) })
}

// minStreamBytes is the least size of a stream. Fewer bytes are a mistyped number.
const minStreamBytes = 64 << 10

// streamSizes is the value of --max-bytes.
type streamSizes struct {
	cfg   *bus.Config
	given []string
}

func (s *streamSizes) Type() string   { return "sizes" }
func (s *streamSizes) String() string { return strings.Join(s.given, ",") }

func (s *streamSizes) Set(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		name, size, named := strings.Cut(part, "=")
		if !named {
			size = name
		}
		n, err := parseBytes(size)
		switch {
		case err != nil:
			return err
		case n > 0 && n < minStreamBytes:
			return fmt.Errorf("%q: a stream needs at least 64KiB (sizes are written as 64KiB, 16MiB or 1GiB)", part)
		case !named:
			s.cfg.MaxBytes = n
			continue
		case n == 0:
			return fmt.Errorf("%q: want more than 0 bytes", part)
		}
		if s.cfg.StreamBytes == nil {
			s.cfg.StreamBytes = map[string]int64{}
		}
		s.cfg.StreamBytes[strings.ToLower(strings.TrimSpace(name))] = n
	}
	s.given = append(s.given, text)
	return nil
}

// parseBytes returns a number of bytes, such as 4096, 64KiB, 16MiB or 1.5GiB. MB means
// MiB, as in the nats CLI.
func parseBytes(text string) (int64, error) {
	number := strings.TrimRight(strings.TrimSpace(text), "kKmMgGtTiIbB ")
	unit := strings.ToLower(strings.TrimSpace(strings.TrimSpace(text)[len(number):]))
	unit = strings.TrimSuffix(strings.TrimSuffix(unit, "b"), "i")
	shift, ok := map[string]int{"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[unit]
	value, err := strconv.ParseFloat(number, 64)
	switch bytes := value * float64(int64(1)<<shift); {
	case !ok || err != nil || value < 0 || bytes != bytes:
		return 0, fmt.Errorf("%q: want a number of bytes, such as 16777216, 16MiB or 1.5GiB", text)
	case bytes > 1<<62:
		return 0, errors.New("too many bytes")
	default:
		return int64(bytes), nil
	}
}
