package offload

import (
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/time/rate"

	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// MinBudgeted is the length in characters from which a result counts for Config.Budget: a
	// reference with its preview is about half as long.
	MinBudgeted = 4_000
	// maxBudgets is how many sessions an Offloader remembers.
	maxBudgets = 4_096
)

// budgets limit what the results that are shown in full add to the prompt of a session. They
// know only the results of this process.
type budgets struct {
	mu       sync.Mutex
	sessions map[string]*rate.Limiter
}

// spend reports whether a session may get so many characters in full, of at most budget a minute.
func (b *budgets) spend(session string, characters, budget int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	limiter := b.sessions[session]
	if limiter == nil {
		if len(b.sessions) >= maxBudgets || b.sessions == nil {
			b.sessions = map[string]*rate.Limiter{} // all sessions begin again
		}
		limiter = rate.NewLimiter(rate.Limit(budget)/60, budget)
		b.sessions[session] = limiter
	}
	return limiter.AllowN(now, characters)
}

// FitsBudget reports whether a session gets a result of so many characters in full, and counts
// them (Config.Budget).
func (o *Offloader) FitsBudget(session string, characters int) bool {
	return o.cfg.Budget <= 0 || characters < MinBudgeted || o.budgets.spend(session, characters, o.cfg.Budget)
}

// exceedsBudget reports whether a result that would be shown in full is too long for the budget
// of its session.
func (o *Offloader) exceedsBudget(call tools.Call, def tools.Definition, b body) bool {
	if o.cfg.Disabled || def.NoOffload || call.Offload != nil && !*call.Offload || !b.inMemory {
		return false
	}
	n := utf8.RuneCountInString(b.text)
	return int64(n) < o.cfg.InlineChars && !o.FitsBudget(call.SessionToken(), n)
}
