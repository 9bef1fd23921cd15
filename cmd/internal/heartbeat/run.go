package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

// Run updates the schedule and writes the log until ctx is done. If the heartbeat
// is disabled, Run removes its schedule and returns. Run logs failures and retries.
func Run(ctx context.Context, b *bus.Bus, cfg Config) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	s := &scheduler{bus: b, jobs: cron.New(b), cfg: cfg}
	if cfg.Disabled {
		cfg.Log.Info().Msg("heartbeat is disabled")
		return s.remove(ctx)
	}
	if s.workspace, err = os.OpenRoot(cfg.Workspace); err != nil {
		return fmt.Errorf("the workspace of the heartbeat: %w", err)
	}
	defer func() { _ = s.workspace.Close() }() // nothing was written to it
	if cfg.Once {
		return s.reconcile(ctx)
	}
	if err := s.appendLog(""); err != nil { // the heartbeat works without its log
		cfg.Log.Warn().Err(err).Str("file", LogFile).Msg("cannot start the heartbeat's log")
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.writeLog(ctx) })
	s.watch(ctx)
	if err := group.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// scheduler updates one schedule.
type scheduler struct {
	bus       *bus.Bus
	jobs      *cron.Jobs
	cfg       Config
	workspace *os.Root

	written      bool   // instructions were written to the server
	instructions string // empty means no schedule
}

// watch updates the schedule if HEARTBEAT.md changes.
func (s *scheduler) watch(ctx context.Context) {
	var last error // it is not logged again
	for {
		err := s.reconcile(ctx)
		trouble.Report(ctx, trouble.Heartbeat, "", err)
		if err != nil && ctx.Err() == nil && fmt.Sprint(err) != fmt.Sprint(last) {
			s.cfg.Log.Error().Err(err).Msg("cannot update the heartbeat's schedule; retrying")
		}
		last = err
		if tools.Sleep(ctx, s.cfg.Poll) != nil {
			return
		}
	}
}

// reconcile writes the schedule to the server if HEARTBEAT.md has changed or the
// schedule is missing. If it always compared the whole schedule, two processes with
// different settings would continually restart each other's interval.
func (s *scheduler) reconcile(ctx context.Context) error {
	instructions, err := readInstructions(s.workspace)
	if err != nil {
		return err // keep the schedule; the file may be incomplete
	}
	changed := !s.written || instructions != s.instructions
	if err := s.put(ctx, instructions, changed); err != nil {
		return err
	}
	s.written, s.instructions = true, instructions
	return nil
}

// put stores the heartbeat, or if the file has not changed, stores it if it is missing.
func (s *scheduler) put(ctx context.Context, instructions string, fileChanged bool) error {
	log := s.cfg.Log
	if instructions == "" || s.cfg.NoAgent {
		switch {
		case !fileChanged:
			return nil
		case instructions == "":
			log.Info().Str("file", File).Msg("heartbeat is idle: its file is missing or contains no instructions")
		default:
			log.Warn().Str("file", File).Msg("heartbeat is idle: its file contains instructions, but no --model is set")
		}
		return s.remove(ctx)
	}
	job, err := s.cfg.job(instructions)
	changed := false
	if err == nil {
		changed, err = s.jobs.Put(ctx, job, fileChanged)
	}
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	if fileChanged || changed {
		log.Info().Str("schedule", bus.HeartbeatName).Stringer("every", s.cfg.Every).Bool("changed", changed).Msg("heartbeat scheduled")
	}
	return nil
}

func (s *scheduler) remove(ctx context.Context) error {
	existed, err := s.jobs.Delete(ctx, bus.HeartbeatName)
	if existed {
		s.cfg.Log.Info().Str("schedule", bus.HeartbeatName).Msg("heartbeat's schedule removed")
	}
	return err
}
