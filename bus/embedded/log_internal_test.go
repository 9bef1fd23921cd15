package embedded

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// After a kill, the server makes its index anew and says so in warnings, although nothing is
// lost. Other warnings stay.
func TestWarningsOfAnIndex(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Filestore [CALLS] Stream state outdated, found extra blocks, will rebuild":                     "debug",
		"Filestore [CALLS] Stream state outdated, last block has additional entries, will rebuild":      "debug",
		"Filestore [CALLS] Recovering stream state from index errored: prior state file":                "debug",
		"Filestore [CALLS] TTL state is outdated; attempting to recover using linear scan (seq 1 to 5)": "debug",
		"Filestore [CALLS] Removing message block":                                                      "warn",
	} {
		var out bytes.Buffer
		(&serverLog{log: zerolog.New(&out)}).Warnf("%s", text)
		if !strings.Contains(out.String(), `"level":"`+want+`"`) || !strings.Contains(out.String(), text) {
			t.Errorf("%s is logged as %s", text, &out)
		}
	}
}
