package cli

import (
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/bus"
)

// Logging holds the flags of the log.
type Logging struct {
	Level  string
	Format string
}

// AddFlags adds the log's flags.
func (l *Logging) AddFlags(flags *pflag.FlagSet) { Topic(flags, TopicSettings, l.addFlags) }

func (l *Logging) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&l.Level, "log-level", "info", "`LEVEL` of the log: debug, info, warn, error, off")
	flags.StringVar(&l.Format, "log-format", "auto", "`FORMAT` of the log: text, json, or auto (text on a terminal)")
}

// Logger returns the logger that the flags describe, writing to stderr. What the
// standard library logs goes there as well, at the level debug.
func (l *Logging) Logger(stderr io.Writer) (zerolog.Logger, error) {
	name := l.Level
	if name == "off" {
		name = "disabled"
	}
	level, err := zerolog.ParseLevel(name)
	if err != nil || name == "" {
		return zerolog.Nop(), Exit(ExitUsage, "--log-level %q: want debug, info, warn, error or off", l.Level)
	}
	var out io.Writer
	switch text := isTerminal(stderr); {
	case l.Format == "text", l.Format == "auto" && text:
		out = zerolog.ConsoleWriter{Out: stderr, TimeFormat: time.TimeOnly, NoColor: !text || os.Getenv("NO_COLOR") != ""}
	case l.Format == "json", l.Format == "auto":
		out = stderr
	default:
		return zerolog.Nop(), Exit(ExitUsage, "--log-format %q: want text, json or auto", l.Format)
	}
	logger := zerolog.New(out).Level(level).With().Timestamp().Logger()
	log.SetFlags(0)
	log.SetOutput(foreign{logger})
	return logger, nil
}

// foreign takes what the standard library logs, which net/http does by itself. It
// quotes what the other side said, which is not for the log: from the first
// quotation mark on, a line is left out.
type foreign struct{ logger zerolog.Logger }

func (f foreign) Write(line []byte) (int, error) {
	text, _, _ := strings.Cut(string(line), `"`)
	f.logger.Debug().Str("text", strings.TrimSpace(text)).Msg("the standard library says")
	return len(line), nil
}

func isTerminal(w io.Writer) bool {
	if o, ok := w.(*outliving); ok {
		w = o.w
	}
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// JSON writes v as one line of JSON.
func JSON(w io.Writer, v any) error {
	data, err := bus.Encode(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", data)
	return err
}

// Printable returns text as it may be printed to w: on a terminal, control
// characters of tools' output could take it over, and are shown as escapes.
func Printable(w io.Writer, text string) string {
	if !isTerminal(w) {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || r == '\t':
			out.WriteRune(r)
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == utf8.RuneError:
			fmt.Fprintf(&out, "\\u%04x", r)
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// OneLine returns text fit for a table: control characters become spaces.
func OneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return ' '
		}
		return r
	}, text)
}
