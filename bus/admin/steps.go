package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// Step moves one stream or bucket from a version of its format to a later one. What it does can be
// repeated: the version is stored last, so after a crash the step begins again.
type Step struct {
	// Stream is the name of the stream or bucket: in the list of steps one of the constants of bus,
	// in those that Steps and Move return the full name.
	Stream   string
	From, To jsapi.Version
	// Does says what the step does.
	Does string
	// Beside is set if workers of the version before can run during the step and after it.
	Beside bool
	// run, if not nil, changes what is stored. The stream has its earlier subjects and settings and
	// those of this version. A step without it only adds subjects and sets the messages per subject.
	run func(ctx context.Context, b *bus.Bus) error
	// same is set if only the version changes, so that there is nothing to copy.
	same bool
}

func (s Step) String() string {
	if s.From == (jsapi.Version{}) {
		return fmt.Sprintf("%s: version %s (%s)", s.Stream, s.To, s.Does)
	}
	return fmt.Sprintf("%s: version %s to %s (%s)", s.Stream, s.From, s.To, s.Does)
}

// unreleased is the version before jsapi.Base. The results had no reports then, and all else was as
// in jsapi.Base.
var unreleased = jsapi.Version{Major: 2}

// steps has a step for each version since unreleased that a stream or bucket had. One without a
// stream is for all that have no other one.
var steps = []Step{
	{Stream: bus.Results, From: unreleased, To: jsapi.Base, Does: "stores reports for the notifier", run: readReports},
	{From: unreleased, To: jsapi.Base, Does: "nothing else changes", same: true},
	{Stream: bus.Outbox, From: jsapi.Base, To: bus.OutboxFormat, Does: "gives each chat its own subject", Beside: true},
	{Stream: bus.Ticks, From: jsapi.Base, To: bus.TicksFormat, Does: "keeps removed jobs from coming back after a kill of the server", Beside: true},
}

// Steps returns the steps that move what err names, in their order. If one of the differences has
// no steps, ok is false: nothing is moved then.
func Steps(err *jsapi.FormatError) (found []Step, ok bool) {
	for _, d := range err.Differences {
		if d.Unused {
			found = append(found, Step{Stream: d.Stream, To: d.Wants, Does: "it was never used, and gets all settings", Beside: true, same: true})
			continue
		}
		if d.Has == (jsapi.Version{}) || d.Has.Compare(d.Wants) > 0 {
			return nil, false
		}
		for v := d.Has; v != d.Wants; {
			i := slices.IndexFunc(steps, func(s Step) bool { return s.From == v && (s.Stream == "" || strings.HasSuffix(d.Stream, "_"+s.Stream)) })
			if i < 0 {
				return nil, false
			}
			step := steps[i]
			step.Stream, v = d.Stream, step.To
			found = append(found, step)
		}
	}
	return found, true
}

// pendingSteps returns the steps that Move would apply. If something cannot be moved, the error is a
// *jsapi.FormatError.
func pendingSteps(ctx context.Context, b *bus.Bus) ([]Step, error) {
	_, err := b.Formats(ctx)
	other, ok := errors.AsType[*jsapi.FormatError](err)
	if !ok {
		return nil, err
	}
	if found, ok := Steps(other); ok {
		return found, nil
	}
	return nil, err
}

// Move applies the steps that the streams and buckets need, and returns them. Before, it saves those
// that it changes into dir/STREAM-VERSION, in the format of Backup, unless dir is empty. A copy that
// an earlier Move completed there is kept, because that Move may have changed the stream
// afterwards. It calls show before each step.
func Move(ctx context.Context, b *bus.Bus, dir string, show func(Step)) ([]Step, error) {
	pending, err := pendingSteps(ctx, b)
	if err != nil {
		return nil, err
	}
	if dir != "" {
		var copied []string
		for _, s := range pending {
			if s.same || slices.Contains(copied, s.Stream) {
				continue
			}
			copied = append(copied, s.Stream)
			if err := saveBefore(ctx, b, s, dir); err != nil {
				return nil, fmt.Errorf("copy stream %s before it is moved to version %s of its format; nothing was changed: %w", s.Stream, s.To, err)
			}
		}
	}
	for i, s := range pending {
		show(s)
		if err := s.apply(ctx, b); err != nil {
			return pending[:i], fmt.Errorf("%s; the next try continues: %w", s, err)
		}
	}
	return pending, nil
}

// saveBefore saves the stream of a step unless a complete copy exists.
func saveBefore(ctx context.Context, b *bus.Bus, s Step, dir string) error {
	copied := filepath.Join(dir, s.Stream+"-"+s.From.String())
	if _, err := os.Stat(filepath.Join(copied, backupMeta)); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := errors.Join(os.RemoveAll(copied), os.MkdirAll(dir, 0o700)); err != nil { // a copy that was interrupted
		return err
	}
	_, err := saveStream(ctx, b, s.Stream, copied)
	return err
}

// apply runs the step and stores its version. Subjects that an operator added stay.
func (s Step) apply(ctx context.Context, b *bus.Bus) error {
	stream, err := b.JetStream().Stream(ctx, s.Stream)
	if err != nil {
		return err
	}
	config, want := stream.CachedInfo().Config, b.StreamOf(b.Config(), s.Stream)
	config.MaxMsgsPerSubject = want.MaxMsgsPerSubject
	for _, subject := range want.Subjects {
		if !slices.Contains(config.Subjects, subject) {
			config.Subjects = append(config.Subjects, subject)
		}
	}
	if s.run != nil {
		if err := updateStream(ctx, b, config); err != nil {
			return err
		}
		if err := s.run(ctx, b); err != nil {
			return err
		}
	}
	config.Metadata = s.To.Mark(config.Metadata)
	if s.From == (jsapi.Version{}) { // the mark says that it has the settings, so both are one change
		keepLimits(b, &want, config)
		bus.Align(&config, want)
		if err := updateStream(ctx, b, config); err != nil {
			return fmt.Errorf("somebody made this stream, and the server cannot change it to what this program needs; it never had a message, "+
				"so remove it, and then it is made anew: %w", err)
		}
		return nil
	}
	return updateStream(ctx, b, config)
}

// readReports lets the notifier read completions and reports, as it does since version 3. Texts of
// results that it had not read yet are not sent; the results are kept.
func readReports(ctx context.Context, b *bus.Bus) error {
	c := b.NotifierConsumer()
	info, ok, err := b.ConsumerInfo(ctx, c)
	if !ok || err != nil {
		return err
	}
	info.Config.FilterSubject, info.Config.FilterSubjects = "", c.Filter
	return bus.WithChangeTimeout(ctx, func(ctx context.Context) error {
		_, err := b.JetStream().UpdateConsumer(ctx, b.StreamName(c.Stream), info.Config)
		return err
	})
}
