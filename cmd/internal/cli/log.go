package cli

import (
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/tools"
)

// Logging are the settings of the log.
type Logging struct {
	Level  string `flag:"log-level" default:"info" unit:"LEVEL" help:"LEVEL of the log: debug, info, warn, error, off"`
	Format string `flag:"log-format" default:"auto" unit:"FORMAT" help:"FORMAT of the log: text, json, or auto (text on a terminal)"`
}

// AddFlags adds the flags.
func (l *Logging) AddFlags(flags *pflag.FlagSet) { AddSettingsOf(flags, l, *l, topicSettings) }

// Logger returns a logger that writes to stderr. It also receives the events of the
// standard library's logger, at the level debug.
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
	switch text := IsTerminal(stderr); {
	case l.Format == "text", l.Format == "auto" && text:
		out = zerolog.ConsoleWriter{Out: Raw(stderr), TimeFormat: time.TimeOnly, NoColor: !text || os.Getenv("NO_COLOR") != "",
			FormatFieldValue: func(v any) string { return tools.EscapeLine(fmt.Sprintf("%s", v)) }, // a list is not quoted
			FormatPrepare: func(event map[string]any) error {
				if text, ok := event[zerolog.MessageFieldName].(string); ok {
					event[zerolog.MessageFieldName] = tools.EscapeLine(text)
				}
				return nil
			}}
	case l.Format == "json", l.Format == "auto":
		out = jsonLog{stderr}
	default:
		return zerolog.Nop(), Exit(ExitUsage, "--log-format %q: want text, json or auto", l.Format)
	}
	logger := zerolog.New(zerolog.SyncWriter(out)).Level(level).With().Timestamp().Logger()
	log.SetFlags(0)
	log.SetOutput(standardLog{logger})
	return logger, nil
}

// jsonLog writes events without characters that a terminal would interpret.
type jsonLog struct{ to io.Writer }

func (l jsonLog) Write(event []byte) (int, error) {
	if _, err := io.WriteString(l.to, tools.EscapeJSON(string(event))); err != nil {
		return 0, err
	}
	return len(event), nil
}

// standardLog receives the standard library's log, which net/http writes to. A line
// may quote a remote server, so standardLog drops the rest of a line from the first
// quotation mark.
type standardLog struct{ logger zerolog.Logger }

func (l standardLog) Write(line []byte) (int, error) {
	text, _, _ := strings.Cut(string(line), `"`)
	l.logger.Debug().Str("text", strings.TrimSpace(text)).Msg("standard library")
	return len(line), nil
}
