package simulate

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// callName matches the id of a call in a text.
var callName = regexp.MustCompile(`\bc\d+\b`)

// around is how long before and after a call its faults are shown.
const around = 2 * time.Minute

// happened says what the ledger knows of a call, and the faults around it. The ledger is locked.
func (s *simulation) happened(id string) string {
	p, l := s.ledger.accepted[id], s.ledger
	if p == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n  %s is a call of %s in session %s, accepted at %s", id, p.tool, p.session, p.at.Format(time.TimeOnly))
	if p.priority != "" {
		fmt.Fprintf(&b, ", priority %s", p.priority)
	}
	if !p.deadline.IsZero() {
		fmt.Fprintf(&b, ", deadline %s", p.deadline.Format(time.TimeOnly))
	}
	fmt.Fprintf(&b, ", runs for %d ms; cancelled %t, raw %t, retried letter %t", p.ms, p.cancelled, p.raw, l.retried[id])
	last := p.at
	for _, at := range l.runs[id] {
		last = at
		fmt.Fprintf(&b, "\n  %s it runs", at.Format("15:04:05.000"))
	}
	events := s.events
	if s.host != nil {
		events = s.host.events
	}
	for _, event := range events {
		if event.at.After(p.at.Add(-around)) && event.at.Before(last.Add(around)) {
			fmt.Fprintf(&b, "\n  %s", event)
		}
	}
	return b.String()
}

// Steps and tries of TestShrink.
const (
	shrinkStep  = 5 // minutes
	shrinkTries = 3 // the order of goroutines is not part of the seed
	countTries  = 10
)

// TestShrink prints the shortest part of a seed that still fails, on one page, and how often it fails.
// STEVEDORE_SHRINK is a seed that has failed.
func TestShrink(t *testing.T) {
	seed := number(t, "STEVEDORE_SHRINK", 0)
	if seed == 0 {
		t.Skip(`STEVEDORE_SHRINK is not set; "make simulate" sets it for each seed that fails`)
	}
	page := ""
	fails := func(minutes uint64) bool {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestSimulate$", "-test.v", "-test.timeout", "30m")
		cmd.Env = append(os.Environ(), "STEVEDORE_SIMULATE=1", fmt.Sprint("STEVEDORE_SIMULATE_SEED=", seed), fmt.Sprint("STEVEDORE_SIMULATE_MINUTES=", minutes))
		out, err := cmd.CombinedOutput()
		if err != nil {
			page = pageOf(string(out))
		}
		return err != nil
	}
	ever := func(minutes uint64) bool {
		for range shrinkTries {
			if fails(minutes) {
				return true
			}
		}
		return false
	}
	whole := uint64(seedTime / time.Minute)
	if !ever(whole) {
		t.Logf("seed %d passes %d of %d times", seed, shrinkTries, shrinkTries)
		return
	}
	passes, shortest := uint64(0), whole
	for shortest-passes > shrinkStep {
		middle := (passes + shortest) / 2 / shrinkStep * shrinkStep
		if ever(middle) {
			shortest = middle
		} else {
			passes = middle
		}
	}
	count := 0
	for range countTries {
		if fails(shortest) {
			count++
		}
	}
	t.Errorf("the first %d minutes of seed %d fail %d of %d times:\n%s", shortest, seed, count, countTries, page)
}

// How the output of a simulation shows what ends it, which is not what its processes log, and how to repeat it.
var (
	found    = regexp.MustCompile(`^    +\w+_test\.go:|^panic:|^fatal error:`)
	toRepeat = regexp.MustCompile(`^    +simulate_test\.go:\d+: to repeat it: `)
	listed   = regexp.MustCompile(`^    +simulate_test\.go:\d+: the faults: `)
)

// pageSize is the greatest length of a page, but for its last line.
const pageSize = 6000

// pageOf returns what the output of a simulation says on a page.
func pageOf(out string) string {
	var page strings.Builder
	shown := false
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "        ") { // the first line of a text
			shown = found.MatchString(line) && !listed.MatchString(line)
		}
		if shown && page.Len()+len(line) < pageSize || toRepeat.MatchString(line) {
			page.WriteString(line)
		}
	}
	return page.String()
}

// A page shows what the judges say, with the faults around a call, and how to repeat it.
func TestPage(t *testing.T) {
	start := time.Date(2000, 1, 1, 0, 1, 0, 0, time.UTC) // around reaches into the day before
	s := &simulation{ledger: newLedger()}
	s.ledger.accepted["c1"] = &promise{at: start, id: "c1", session: "s", tool: "once"}
	s.ledger.runs["c1"] = []time.Time{start.Add(time.Second)}
	s.events = []happening{{start, "process 0 stops"}, {start.Add(time.Hour), "process 1 stops"}}
	got := s.happened("c1")
	if !strings.Contains(got, "00:01:01.000 it runs") || !strings.Contains(got, "00:01:00.000 process 0 stops") || strings.Contains(got, "process 1") {
		t.Error(got)
	}
	want := "    judge_test.go:1: c1 has no result" + strings.ReplaceAll(got, "\n", "\n        ") + "\n"
	repeat := "    simulate_test.go:1: to repeat it: run\n"
	page := pageOf("    writer.go:1: {}\n" + want + strings.Repeat("    judge_test.go:1: another\n", pageSize) + repeat + "    simulate_test.go:2: the faults: [\n        all]\n")
	if !strings.HasPrefix(page, want) || !strings.HasSuffix(page, "another\n"+repeat) || len(page) > pageSize+len(repeat) {
		t.Error(page)
	}
}
