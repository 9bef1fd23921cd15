package cli

import (
	"bytes"
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
