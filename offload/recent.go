package offload

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/time/rate"

	"github.com/stevedore-bus/stevedore/tools"
)

// maxRecent is how many contents, calls and sessions an Offloader remembers.
const maxRecent = 4_096

// recent is what an Offloader remembers of the results of its process. Without it, a reference only
// has a longer preview, and the budget of a session begins again.
type recent struct {
	mu      sync.Mutex
	ids     map[recentKey]string
	budgets map[string]*rate.Limiter
}

// recentKey is a content, by its digest, or a tool with its arguments.
type recentKey struct{ session, what string }

// swap sets the artifact of a content or call, and returns the one before.
func (r *recent) swap(session, what, id string) (before string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ids) >= maxRecent || r.ids == nil {
		r.ids = map[recentKey]string{}
	}
	key := recentKey{session, what}
	before, r.ids[key] = r.ids[key], id
	return before
}

// spend reports whether a session may get so many characters in full, of at most budget a minute.
func (r *recent) spend(session string, characters, budget int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	limiter := r.budgets[session]
	if limiter == nil {
		if len(r.budgets) >= maxRecent || r.budgets == nil {
			r.budgets = map[string]*rate.Limiter{}
		}
		limiter = rate.NewLimiter(rate.Limit(budget)/60, budget)
		r.budgets[session] = limiter
	}
	return limiter.AllowN(now, characters)
}

// MinBudgeted is the length in characters from which a result counts for Config.Budget: a
// reference with its preview is about half as long.
const MinBudgeted = 4_000

// FitsBudget reports whether a session gets a result of so many characters in full, and counts
// them (Config.Budget).
func (o *Offloader) FitsBudget(session string, characters int) bool {
	return o.cfg.Budget <= 0 || characters < MinBudgeted || o.recent.spend(session, characters, o.cfg.Budget)
}

// exceedsBudget reports whether a text that would be shown in full is too long for the budget of
// its session.
func (o *Offloader) exceedsBudget(call tools.Call, def tools.Definition, text string) bool {
	if o.cfg.Disabled || def.NoOffload || call.Offload != nil && !*call.Offload {
		return false
	}
	characters := utf8.RuneCountInString(text)
	return int64(characters) < o.cfg.InlineChars && !o.FitsBudget(call.SessionToken(), characters)
}

// sameAs returns the id of an earlier artifact of the session with the content of rec, or "".
func (o *Offloader) sameAs(ctx context.Context, rec Record) string {
	first := o.recent.swap(rec.Session, rec.Digest, rec.ID)
	if first == "" || first == rec.ID {
		return ""
	}
	if found, err := o.store.Get(ctx, rec.Session, first); err != nil || found.Digest != rec.Digest {
		return ""
	}
	o.recent.swap(rec.Session, rec.Digest, first)
	return first
}

const (
	// maxCompared is the size in bytes of the largest content that is compared with the one before.
	maxCompared = 4 << 20
	// changedLines is how many new lines, and how many that are gone, a reference shows.
	changedLines = 3
	// minReplaced is how many lines a text has of which nearly all may be others: then it is not compared.
	minReplaced = 50
)

// changes says how a result differs from that of the last call of the session with the same tool
// and arguments, or returns "" if there was none, or one of them is too long, has one line or is not UTF-8.
func (o *Offloader) changes(ctx context.Context, call tools.Call, rec Record) string {
	if len(call.Args) == 0 { // the caller does not say them, as the proxy of MCP servers
		return ""
	}
	last := o.recent.swap(rec.Session, fmt.Sprintf("%s %x", call.Tool, sha256.Sum256(call.Args)), rec.ID)
	if last == "" || last == rec.ID || rec.sameAs != "" {
		return ""
	}
	before, err := o.store.Get(ctx, rec.Session, last)
	if err != nil || before.Digest == rec.Digest {
		return ""
	}
	isJSON := before.isJSON() && rec.isJSON() && max(before.Size, rec.Size) <= maxComparedJSON
	asBytes := before.binary() + rec.binary() + before.charset() + rec.charset() // their lines would be shown as escapes
	if !isJSON && min(before.Lines, rec.Lines) < 2 || max(before.Size, rec.Size) > maxCompared || asBytes != "" {
		return ""
	}
	old, err := o.content(ctx, before)
	if err != nil {
		return ""
	}
	now, err := o.content(ctx, rec)
	if err != nil {
		return ""
	}
	said := ""
	if isJSON {
		said = compareJSON(old, now)
	} else {
		said = compareLines(old, now)
	}
	if said == "" {
		return ""
	}
	return fmt.Sprintf("Compared with the artifact '%s', which the same call returned before, %s\n", attribute(last), said)
}

func (rec Record) isJSON() bool { return rec.Type == TypeJSON || isMedia(rec.MediaType, mediaNDJSON) }

// compareLines counts the lines that only one of two texts has, and shows the first of them.
func compareLines(old, now string) string {
	counts := map[string]int{}
	for line := range strings.Lines(old) {
		counts[line]++
	}
	var added, gone strings.Builder
	more, less := 0, 0
	show := func(b *strings.Builder, n int, sign, line string) {
		if n <= changedLines {
			fmt.Fprintf(b, "\n%s %s", sign, neutralise(tools.Excerpt(strings.TrimRight(line, "\r\n"), 160)))
		}
	}
	for line := range strings.Lines(now) {
		if counts[line]--; counts[line] < 0 {
			more++
			show(&added, more, "+", line)
		}
	}
	for line := range strings.Lines(old) {
		if counts[line] > 0 {
			counts[line]--
			less++
			show(&gone, less, "-", line)
		}
	}
	switch {
	case more+less == 0:
		return "it has the same lines in another order."
	case less > minReplaced && less*10 > strings.Count(old, "\n")*9: // the preview says more
		return ""
	}
	return fmt.Sprintf("it has %d new lines, and %d are gone; the first of them:%s%s", more, less, added.String(), gone.String())
}
