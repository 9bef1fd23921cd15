package retention

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/nats-io/nuid"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

// Defaults of Config.
const (
	DefaultMinAge      = time.Hour
	DefaultSessionsTTL = 90 * 24 * time.Hour
)

const (
	// trimAbove is the fill above which a stream is trimmed, trimTo the one afterwards.
	// The difference is so large that few trims are needed, and the rest is enough for
	// what workers publish until the next check.
	trimAbove, trimTo = 0.75, 0.65
	// refusedPause is the shortest time between two checks while the server refuses
	// publishes, fullPause if the last one freed nothing: the stream may be full of waiting
	// calls, and the keepers of many workers ask at the same time.
	refusedPause, fullPause = 200 * time.Millisecond, time.Second
	// vainInterval is the time between two trims that free nothing, unless the stream fills
	// up: each reads all records that stay.
	vainInterval = time.Minute
	// warnInterval is the time between two warnings.
	warnInterval = time.Minute
	// expireInterval is the time between two removals of old conversations.
	expireInterval = 30 * time.Minute
	// refusalShown is how long a refused publish shows that the server refuses writes, unless the stream
	// stores something before. It is longer than the pause before a retry.
	refusalShown = 20 * time.Second
)

// Config configures a Keeper.
type Config struct {
	// MinAge is the age up to which nothing is removed as long as the streams hold it. It is
	// longer than every retry. Default DefaultMinAge.
	MinAge time.Duration
	// SessionsTTL is how long a conversation is kept after its last entry. Default
	// DefaultSessionsTTL.
	SessionsTTL time.Duration
	// Interval is the shortest time between two checks; the longest is twice that. Default 1 s, so
	// that Ready knows within 5 s of a stream that is missing and of a cluster without a leader.
	Interval time.Duration
	Log      zerolog.Logger
}

// Keeper trims the streams of a bus and knows how full they are. Each worker has one.
// They need no leader: each stream is trimmed by the one that holds the lease of its
// trim record, and all others go on if that one dies.
type Keeper struct {
	bus *bus.Bus
	cfg Config
	id  string

	warn, warnYoung zerolog.Logger // one message in warnInterval each

	fills      atomic.Pointer[[]bus.Fill]
	unusable   atomic.Pointer[error] // why the streams cannot be used
	logged     time.Time
	removed    uint64 // records since then
	nextExpire time.Time
	last       map[string]seen // by stream
	freed      bool            // the last check freed space
}

// seen is what a check left of a stream.
type seen struct {
	bytes int64
	at    time.Time
	vain  bool // a trim freed nothing
}

// New returns a Keeper. Run runs it.
func New(b *bus.Bus, cfg Config) *Keeper {
	cfg.MinAge = cmp.Or(max(cfg.MinAge, 0), DefaultMinAge)
	cfg.SessionsTTL = cmp.Or(max(cfg.SessionsTTL, 0), DefaultSessionsTTL)
	cfg.Interval = cmp.Or(max(cfg.Interval, 0), time.Second)
	k := &Keeper{bus: b, cfg: cfg, id: nuid.Next(), last: map[string]seen{}}
	k.warn = cfg.Log.Sample(&zerolog.BurstSampler{Burst: 1, Period: warnInterval})
	k.warnYoung = cfg.Log.Sample(&zerolog.BurstSampler{Burst: 1, Period: warnInterval})
	k.fills.Store(&[]bus.Fill{})
	return k
}

// Run checks the streams until ctx is cancelled.
func (k *Keeper) Run(ctx context.Context) error {
	// The random part spreads the checks of workers that were started together.
	k.nextExpire = time.Now().Add(rand.N(expireInterval))
	for {
		if err := k.Check(ctx); err != nil && ctx.Err() == nil {
			k.warn.Warn().Err(err).Msg("cannot check how full the streams are")
		}
		checked := time.Now()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(k.cfg.Interval + rand.N(k.cfg.Interval)):
			continue
		case <-k.bus.Space().Refused():
		}
		pause := fullPause
		if k.freed { // publishes may need more
			pause = refusedPause
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(checked.Add(pause))):
		}
	}
}

// Check trims the streams that need it and remembers how full they are afterwards. It reports what
// keeps this process from using them.
func (k *Keeper) Check(ctx context.Context) error {
	defer func() { trouble.Report(ctx, trouble.Streams, "", k.Ready()) }()
	k.freed = false
	exist, unusable := bus.CheckStreams(ctx, k.bus)
	k.unusable.Store(&unusable)
	if unusable != nil {
		k.warn.Warn().Err(unusable).Msg("cannot use all streams")
	}
	if errors.Is(unusable, bus.ErrNoLeader) {
		return nil // the streams do not answer either
	}
	fills, err := bus.ReadFills(ctx, k.bus, exist)
	if err != nil {
		unusable = cmp.Or(unusable, err)
		k.unusable.Store(&unusable)
		return err
	}
	for i, f := range fills {
		last := k.last[f.Stream]
		urgent := f.Ratio() >= bus.NearlyFull || k.willBeFull(f, last)
		trim := f.Ratio() >= trimAbove && (urgent || !last.vain || time.Since(last.at) >= vainInterval)
		if !trim {
			if !last.vain || f.Ratio() < trimAbove {
				k.last[f.Stream] = seen{bytes: f.Bytes, at: time.Now()}
			}
			continue
		}
		if err := k.trim(ctx, f, urgent); err != nil {
			k.warn.Warn().Err(err).Str("stream", f.Name).Msg("cannot remove old records")
			continue
		}
		if fills[i], err = bus.ReadFill(ctx, k.bus, f.Stream); err != nil {
			return err
		}
		vain := fills[i].Bytes >= f.Bytes
		k.freed = k.freed || !vain
		k.last[f.Stream] = seen{fills[i].Bytes, time.Now(), vain}
	}
	k.fills.Store(&fills)
	if f, ok := fullest(fills); ok && f.Ratio() >= bus.FillWarning {
		k.warn.Warn().Str("stream", f.Name).Int("percent", int(100*f.Ratio())).Str("reason", f.Full().Error()).Msg("stream is nearly full")
	}
	if now := time.Now(); now.After(k.nextExpire) {
		k.nextExpire = now.Add(expireInterval + rand.N(expireInterval))
		return k.expireSessions(ctx)
	}
	return nil
}

// willBeFull reports whether a stream that goes on to grow as since the last check will be
// nearly full before the next but one.
func (k *Keeper) willBeFull(f bus.Fill, last seen) bool {
	passed := time.Since(last.at)
	if last.at.IsZero() || passed <= 0 {
		return false
	}
	growth := float64(f.Bytes-last.bytes) / passed.Seconds()
	return float64(f.Bytes)+growth*(4*k.cfg.Interval).Seconds() >= bus.NearlyFull*float64(f.MaxBytes)
}

// youngest is the age up to which no result is removed, even if the stream is full.
func (k *Keeper) youngest() time.Duration { return min(k.cfg.MinAge, k.bus.Config().Lease) }

// trim removes the oldest records of a stream. Waiting calls and notifications are not
// finished work, and a stream of dead letters removes its oldest ones itself.
func (k *Keeper) trim(ctx context.Context, f bus.Fill, urgent bool) error {
	age := k.cfg.MinAge
	if f.Stream == bus.Results && urgent {
		age = k.youngest()
	} else if f.Stream != bus.Results && f.Stream != bus.Sessions {
		return nil
	}
	if f.At.Sub(f.Oldest) < age { // nothing may be removed
		return nil
	}
	l, err := k.acquire(ctx, f.Stream)
	if err != nil || l == nil {
		return err
	}
	toFree := f.Bytes - int64(trimTo*float64(f.MaxBytes))
	if f.Stream == bus.Sessions {
		err = k.removeSessions(ctx, l, age, toFree)
	} else {
		err = k.trimResults(ctx, f, l, toFree, urgent)
	}
	return errors.Join(err, l.release(ctx))
}

// Fills returns how full the streams were at the last check.
func (k *Keeper) Fills() []bus.Fill { return *k.fills.Load() }

// Ready returns an error that says which streams are missing, altered or nearly full, that the cluster
// has no leader, or that the server refuses writes.
func (k *Keeper) Ready() error {
	if err := k.unusable.Load(); err != nil && *err != nil && !errors.Is(*err, context.Canceled) {
		return *err
	}
	for _, f := range k.Fills() {
		if f.Altered != nil {
			return f.Altered
		}
		if f.Format != nil { // no command and no new worker connects
			return f.Format
		}
	}
	if f, ok := fullest(k.Fills()); ok && f.Ratio() >= bus.NearlyFull {
		return f.Full()
	}
	if r, ok := k.bus.Space().Refusing(); ok && time.Since(r.At) < refusalShown {
		return fmt.Errorf("the server refuses writes to %q: %w", r.Subject, r.Err)
	}
	return nil
}

// fullest returns the fullest of the streams that reject messages.
func fullest(fills []bus.Fill) (full bus.Fill, ok bool) {
	for _, f := range fills {
		if f.Rejects && (!ok || f.Ratio() > full.Ratio()) {
			full, ok = f, true
		}
	}
	return full, ok
}
