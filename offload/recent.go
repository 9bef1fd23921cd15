package offload

import (
	"context"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/time/rate"

	"github.com/stevedore-bus/stevedore/tools"
)

// maxRecent is how many contents and sessions an Offloader remembers.
const maxRecent = 4_096

// recent is what an Offloader remembers of the results of its process. Without it, a reference only
// has a longer preview, and the budget of a session begins again.
type recent struct {
	mu      sync.Mutex
	ids     map[recentKey]string
	budgets map[string]*rate.Limiter
}

// recentKey is a content of a session.
type recentKey struct{ session, digest string }

// swap sets the artifact of a content, and returns the one before.
func (r *recent) swap(session, digest, id string) (before string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ids) >= maxRecent || r.ids == nil {
		r.ids = map[recentKey]string{}
	}
	key := recentKey{session, digest}
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
