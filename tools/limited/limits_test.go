package limited

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The table in the docs is that of the code.
func TestLimitsAreDocumented(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	table.WriteString("| kind | processor time for 1 MiB | for each further MiB | at most | memory |\n|---|---|---|---|---|\n")
	for _, k := range []Kind{SQL, JQ, Grep, Picture, HTML} {
		memory := "in the worker"
		if k.Memory > 0 {
			memory = fmt.Sprintf("%d MiB", k.Memory>>20)
		}
		table.WriteString(fmt.Sprintf("| `%s` | %g s | %g s | %g s | %s |\n", k.Name, k.CPU(1<<20).Seconds(), (k.CPU(1<<20+1) - k.CPU(1<<20)).Seconds(), k.Most.Seconds(), memory))
	}
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "\n\n"+table.String()+"\n") {
		t.Errorf("docs/security.md does not have this table:\n%s", table.String())
	}
	turns := fmt.Sprintf("of which a session has %d at most. After %g s of the processor it goes on in a slow slot with a lower priority; a session has %s,",
		sessionQuick, slice.Seconds(), map[int]string{1: "one"}[sessionSlow])
	if !strings.Contains(string(page), turns) {
		t.Errorf("docs/security.md does not say %q", turns)
	}
}
