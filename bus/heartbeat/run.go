package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/schedule"
)

// Run keeps the schedule and writes the log until ctx ends. A disabled
// heartbeat is removed, and Run returns at once. What fails on the way is logged
// and tried again.
func Run(ctx context.Context, b *bus.Bus, cfg Config) error {
	return run(ctx, b, cfg, false)
}

// Once puts the server's schedule right and returns.
func Once(ctx context.Context, b *bus.Bus, cfg Config) error {
	return run(ctx, b, cfg, true)
}

func run(ctx context.Context, b *bus.Bus, cfg Config, once bool) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	k := &keeper{bus: b, cfg: cfg}
	if cfg.Disabled {
		cfg.Log.Info().Msg("heartbeat is switched off")
		return k.remove(ctx)
	}
	if k.workspace, err = os.OpenRoot(cfg.Workspace); err != nil {
		return fmt.Errorf("the workspace of the heartbeat: %w", err)
	}
	defer func() { _ = k.workspace.Close() }() // a directory; there is nothing to lose
	if once {
		return k.reconcile(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		group  sync.WaitGroup
		logErr error
	)
	group.Go(func() {
		defer cancel()
		if logErr = k.keepLog(ctx); errors.Is(logErr, context.Canceled) {
			logErr = nil
		}
	})
	k.watch(ctx)
	group.Wait()
	return logErr
}

// keeper keeps one schedule.
type keeper struct {
	bus       *bus.Bus
	cfg       Config
	workspace *os.Root

	settled bool   // the server was told of wanted
	wanted  string // the instructions; empty wants no schedule
	problem string // what was logged last, so that it is not logged again
}

// watch puts the schedule right whenever HEARTBEAT.md changes.
func (k *keeper) watch(ctx context.Context) {
	for {
		if err := k.reconcile(ctx); err != nil && ctx.Err() == nil {
			k.tell(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(k.cfg.Poll):
		}
	}
}

func (k *keeper) tell(err error) {
	if text := err.Error(); text != k.problem {
		k.problem = text
		k.cfg.Log.Error().Err(err).Msg("cannot keep the heartbeat's schedule; trying on")
	}
}

// reconcile makes the server's schedule what HEARTBEAT.md wants. It writes only
// when that changed, or when the schedule is gone: two processes with different
// settings would otherwise restart each other's interval for ever.
func (k *keeper) reconcile(ctx context.Context) error {
	instructions, err := readInstructions(k.workspace)
	if err != nil {
		return err // what was there stays: a half-saved file is no wish
	}
	if k.settled && instructions == k.wanted {
		if instructions == "" || k.cfg.Tool == "" {
			return nil
		}
		if _, ok, err := schedule.New(k.bus).Get(ctx, bus.Heartbeat, k.cfg.Name); ok || err != nil {
			return err
		}
	}
	if err := k.put(ctx, instructions); err != nil {
		return err
	}
	k.settled, k.wanted, k.problem = true, instructions, ""
	return nil
}

func (k *keeper) put(ctx context.Context, instructions string) error {
	switch {
	case instructions == "":
		k.cfg.Log.Info().Str("file", File).Msg("heartbeat rests: its file is missing or asks for nothing")
		return k.remove(ctx)
	case k.cfg.Tool == "":
		k.cfg.Log.Warn().Str("file", File).Msg("heartbeat rests: its file asks for something, but no tool is set that would do it")
		return k.remove(ctx)
	}
	s, err := k.cfg.schedule(instructions)
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	changed, err := schedule.New(k.bus).Put(ctx, s)
	if err == nil {
		k.cfg.Log.Info().Str("schedule", k.cfg.Name).Stringer("every", k.cfg.Every).Str("tool", k.cfg.Tool).Bool("changed", changed).Msg("heartbeat is scheduled")
	}
	return err
}

func (k *keeper) remove(ctx context.Context) error {
	existed, err := schedule.New(k.bus).Delete(ctx, bus.Heartbeat, k.cfg.Name)
	if existed {
		k.cfg.Log.Info().Str("schedule", k.cfg.Name).Msg("heartbeat's schedule is removed")
	}
	return err
}
