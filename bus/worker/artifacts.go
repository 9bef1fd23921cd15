package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/retry"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

// Offloader replaces large content in results by references; *offload.Offloader
// implements it. The content is durable when a method returns.
type Offloader interface {
	// Result returns the offloaded form of res. An error means that the store
	// failed, not the tool; res is unchanged.
	Result(ctx context.Context, call tools.Call, def tools.Definition, res *tools.Result) (*tools.Result, error)
	// Raw returns the result of a tool that another program ran.
	Raw(ctx context.Context, raw tools.RawEvent) (*tools.Result, error)
	// Fallback returns the result to publish if res cannot be stored: an error
	// with as much of the content as fits.
	Fallback(call tools.Call, res *tools.Result, cause error) *tools.Result
}

// storeTimeout is how long the worker retries a failing artifact store before it
// publishes an error result instead of the content: longer than a server restart.
const storeTimeout = 5 * time.Minute

// artifacts writes and reads artifacts. While the store fails, it reports that and tries again, for
// storeTimeout at most, and longer while the bus does not answer: the result could not be published
// then either. An error of the caller and a full store are final.
type artifacts struct {
	store  Offloader
	reader *offload.Reader // or nil
	bus    *bus.Bus
	log    zerolog.Logger
}

// Result tries for about limit.
func (s *artifacts) Result(ctx context.Context, limit time.Duration, call tools.Call, def tools.Definition, res *tools.Result) (short *tools.Result, err error) {
	began := time.Now()
	err = s.retry(ctx, limit, func() (wrote bool, err error) {
		short, err = s.store.Result(ctx, call, def, res)
		return err == nil && short.Artifact != nil, err
	})
	if err == nil {
		recordOffload(ctx, res, short, began)
	}
	return short, err
}

func (s *artifacts) Raw(ctx context.Context, d *task.Delivered) (res *tools.Result, err error) {
	err = s.retry(ctx, storeTimeout, func() (wrote bool, err error) {
		readCtx, cancel := context.WithTimeout(ctx, storeTimeout) // the client library has a short default
		defer cancel()
		raw := *d.Raw
		text, err := d.HeldText(readCtx, s.bus)
		if err != nil {
			return false, err
		}
		if text != nil {
			raw.ForLLM, raw.Object, raw.Note = new(""), "", ""
		}
		if res, err = s.store.Raw(ctx, raw); err == nil && text != nil {
			res.Output = text
		}
		return err == nil && res.Artifact != nil, err
	})
	return res, err
}

// Expand returns a call with the contents of artifacts in place of arguments {"$artifact":"ID"},
// if its tool accepts that. The delivery keeps the arguments of the client, which its digest
// identifies.
func (s *artifacts) Expand(ctx context.Context, d *task.Delivered) (call tools.Call, err error) {
	call = d.Call
	if s.reader == nil || !d.Tool.AcceptsArtifacts {
		return call, nil
	}
	err = s.retry(ctx, storeTimeout, func() (wrote bool, err error) {
		call.Args, err = s.reader.Expand(ctx, d.Key.Session, d.Tool.Parameters, d.Call.Args)
		return false, err
	})
	return call, err
}

// keepArgs keeps the arguments of a call in an artifact, and returns its id, or bus.ErrTooLarge.
func (s *artifacts) keepArgs(ctx context.Context, d *task.Delivered) (id string, err error) {
	call := tools.Call{ID: "args-" + d.Key.ID, Session: d.Call.Session, Tool: d.Call.Tool, Offload: new(true)}
	res, err := s.Result(ctx, storeTimeout, call, d.Tool, tools.NewToolResult(string(d.Call.Args)))
	if err != nil || res.Artifact == nil || res.Artifact.Truncated || s.reader == nil {
		return "", fmt.Errorf("%w: its arguments cannot be kept in an artifact", bus.ErrTooLarge)
	}
	return res.Artifact.ID, nil
}

// readArgs reads the arguments that keepArgs stored, if it did. Any client can name an artifact in
// the header, so the digest is that of the arguments which it has.
func (s *artifacts) readArgs(ctx context.Context, d *task.Delivered) error {
	switch {
	case d.Raw != nil, d.Resumed.ArgsIn == "":
		return nil
	case s.reader == nil:
		return errors.New("the arguments of the call are in an artifact, and this worker reads none")
	}
	return s.retry(ctx, storeTimeout, func() (wrote bool, err error) {
		_, content, err := s.reader.Open(ctx, d.Key.Session, d.Resumed.ArgsIn)
		if err != nil {
			return false, err
		}
		defer func() { _ = content.Close() }()
		if d.Call.Args, err = io.ReadAll(io.NewSectionReader(content, 0, content.Size())); err != nil {
			return false, err
		}
		d.Digest = d.Call.Digest()
		return false, nil
	})
}

// isStoreFinal reports whether the same attempt cannot succeed later.
func isStoreFinal(err error) bool {
	_, callerError := errors.AsType[*tools.Error](err)
	return callerError || errors.Is(err, offload.ErrQuota)
}

// retry reports whether the store works. A result that needs no artifact, and a read that succeeds at
// once, say nothing of it.
func (s *artifacts) retry(ctx context.Context, limit time.Duration, do func() (wrote bool, err error)) error {
	failed := false
	for {
		err := retry.Log(ctx, s.log, "the artifact store fails", limit, isStoreFinal, func() error {
			wrote, err := do()
			failing := err != nil && !isStoreFinal(err)
			if failing || err == nil && (wrote || failed) {
				trouble.Report(ctx, trouble.Store, "", err)
			}
			failed = failed || failing
			return err
		})
		if err == nil || isStoreFinal(err) || ctx.Err() != nil || limit < storeTimeout {
			return err
		}
		if _, down := bus.CheckStreams(ctx, s.bus); bus.IsClosed(down) || !bus.IsOutage(down) && !errors.Is(down, bus.ErrNoLeader) {
			_, err := do() // it may answer since just now
			return err
		}
	}
}
