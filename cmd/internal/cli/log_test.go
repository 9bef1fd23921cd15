package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"log"
	"strings"
	"testing"
)

// The standard library's log is written to our logger, without quoted text of remote
// servers.
func TestStandardLogUsesOurLogger(t *testing.T) {
	defer log.SetFlags(log.Flags())
	defer log.SetOutput(log.Writer())
	for level, want := range map[string]string{"info": "", "debug": "idle HTTP channel starting with"} {
		var stderr bytes.Buffer
		if _, err := (&Logging{Level: level, Format: "json"}).Logger(&stderr); err != nil {
			t.Fatal(err)
		}
		log.Printf("Unsolicited response received on idle HTTP channel starting with %q; err=%v", "the-secret\x1b[2J", nil)
		got := stderr.String()
		if want == "" && got != "" || !strings.Contains(got, want) || strings.Contains(got, "secret") {
			t.Errorf("%s: %q", level, got)
		}
	}
}

// No event of the log has a character that a terminal would interpret.
func TestLogIsVisible(t *testing.T) {
	const evil = "a\x1b[2J\u009b31m\u202e\u2028\nb"
	for _, format := range []string{"json", "text"} {
		var stderr bytes.Buffer
		logger, err := (&Logging{Level: "info", Format: format}).Logger(&stderr)
		if err != nil {
			t.Fatal(err)
		}
		logger.Error().Err(errors.New(evil)).Str("name", evil).Strs("names", []string{evil}).Msg(evil)
		got := stderr.String()
		if bad := strings.IndexFunc(got, func(r rune) bool { return r != '\n' && (r < ' ' || r >= 0x7f) }); bad >= 0 || strings.Count(got, "\n") != 1 {
			t.Errorf("%s: %q", format, got)
		}
		if event := map[string]any{}; format == "json" && (json.Unmarshal([]byte(got), &event) != nil || event["message"] != evil || event["name"] != evil) {
			t.Errorf("the event is %q, and means %q", got, event)
		}
	}
}
