package task

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// Page selects a part of a listing.
type Page struct {
	// Limit is the most tasks of the page: 1 to 500, 0 means 100.
	Limit int `json:"limit,omitempty"`
	// After is the Listing.Next of the page before; empty means the first page.
	After string `json:"after,omitempty"`
}

const defaultPage = 100

// place is where a page begins: the parked calls, then the waiting calls, then the
// results, each from the newest one on.
type place struct {
	stage  byte   // of stages
	before uint64 // sequence, or for parked calls Parked.Since in Unix nanoseconds; 0 means the newest
}

const stageParked, stageCalls, stageResults = 'p', 'c', 'r'

func (p place) String() string { return fmt.Sprintf("%c%d", p.stage, p.before) }

func parsePlace(after string) (place, error) {
	if after == "" {
		return place{stage: stageParked}, nil
	}
	before, err := strconv.ParseUint(after[1:], 10, 64)
	if err != nil || !strings.ContainsRune(string([]rune{stageParked, stageCalls, stageResults}), rune(after[0])) {
		return place{}, tools.Errorf(tools.CodeInvalidArguments, "after %.80q is not the end of a page; give the next of the page before", after)
	}
	return place{after[0], before}, nil
}

// ListPage is List in pages, newest first: parked calls, then calls that wait or run, then
// async calls. A page takes the same time at every number of tasks. It may have fewer tasks
// than the limit although there are more. A call that ends or begins to wait between two
// pages can be in both or in none.
func ListPage(ctx context.Context, b *bus.Bus, session string, p Page) (Listing, error) {
	if p.Limit < 0 || p.Limit > maxListed {
		return Listing{}, tools.Errorf(tools.CodeInvalidArguments, "limit %d: want 1 to %d", p.Limit, maxListed)
	}
	if p.Limit == 0 {
		p.Limit = defaultPage
	}
	at, err := parsePlace(p.After)
	if err != nil {
		return Listing{}, err
	}
	l, err := newPageReader(ctx, b, session, p.Limit)
	if err != nil {
		return Listing{}, err
	}
	if at.stage == stageParked {
		if at.before, err = l.readParked(ctx, at.before); err != nil {
			return Listing{}, err
		}
		if at.before == 0 {
			at.stage = stageCalls
		}
	}
	next := at
	if at.stage == stageCalls && l.more() {
		if next.before, err = l.readCalls(ctx, at.before); err != nil {
			return Listing{}, err
		}
		if next.before == 0 {
			next.stage = stageResults
		}
	}
	last := false
	if next.stage == stageResults && l.more() {
		if next.before, err = l.readResults(ctx, next.before); err != nil {
			return Listing{}, err
		}
		last = next.before == 0
	}
	if err := l.setRunning(ctx); err != nil {
		return Listing{}, err
	}
	list := Listing{Tasks: make([]Task, len(l.tasks))}
	for i, t := range l.tasks {
		list.Tasks[i] = t.shortened()
	}
	if !last {
		list.Next = next.String()
	}
	return list, nil
}

// pageReader collects the tasks of a page.
type pageReader struct {
	b       *bus.Bus
	session string
	limit   int
	parked  map[string]Record
	tasks   []*Task
	missing map[string]*Task // calls that a worker has, and that none has reported yet
}

func newPageReader(ctx context.Context, b *bus.Bus, session string, limit int) (*pageReader, error) {
	l := &pageReader{b: b, session: session, limit: limit, parked: map[string]Record{}, missing: map[string]*Task{}}
	return l, ListRecords(ctx, b, session, func(r Record) {
		if r.Parked != nil {
			l.parked[r.key.ID] = r
		}
	})
}

func (l *pageReader) more() bool { return len(l.tasks) < l.limit }

func (l *pageReader) isParked(id string) bool { _, ok := l.parked[id]; return ok }

func (l *pageReader) add(id string) *Task {
	t := &Task{ID: id, Session: l.session, State: Queued}
	l.tasks = append(l.tasks, t)
	return t
}

// hasResult reports whether a call has ended or is async.
func (l *pageReader) hasResult(ctx context.Context, id string) (bool, error) {
	stored, err := ReadResults(ctx, l.b, l.session, id)
	return len(stored) > 0, err
}

// readParked adds parked calls.
func (l *pageReader) readParked(ctx context.Context, before uint64) (next uint64, err error) {
	for _, r := range slices.SortedFunc(maps.Values(l.parked), func(a, b Record) int { return b.Parked.Since.Compare(a.Parked.Since) }) {
		since := uint64(r.Parked.Since.UnixNano())
		if before > 0 && since >= before {
			continue
		}
		if !l.more() {
			return next, nil
		}
		next = since
		done, err := l.hasResult(ctx, r.key.ID)
		if err != nil {
			return 0, err
		}
		if !done {
			l.add(r.key.ID).setParked(r)
		}
	}
	return 0, nil
}

func (l *pageReader) addUnsettled(c unsettledCall) {
	t := l.add(c.id)
	t.setQueued(c)
	if c.delivered {
		l.missing[c.id] = t
	}
}

// readCalls adds the calls that wait or run.
func (l *pageReader) readCalls(ctx context.Context, before uint64) (next uint64, err error) {
	u, seen := newUnsettledReader(l.b), 0
	for m, err := range l.b.Read(ctx, bus.Calls, bus.Back(l.b.CallsOf(l.session, "*"), before)) {
		if err != nil {
			return 0, err
		}
		if c, ok := u.take(ctx, m); ok && !l.isParked(c.id) {
			done, err := l.hasResult(ctx, c.id)
			if err != nil {
				return 0, err
			}
			if !done {
				l.addUnsettled(c)
			}
		}
		if seen++; !l.more() || seen >= maxHistoryScan {
			return m.Sequence, nil
		}
	}
	return 0, nil
}

// readMoved adds the calls that moved between the stream of calls and their records after a time, and were
// in neither when it was read. lost is set if it cannot find one that has no result.
func (l *pageReader) readMoved(ctx context.Context, since time.Time) (lost bool, err error) {
	moving, err := ListMoving(ctx, l.b, l.session, since)
	if err != nil {
		return false, err
	}
	known := map[string]bool{}
	for _, t := range l.tasks {
		known[t.ID] = true
	}
	for _, r := range moving {
		if r.Parked != nil {
			l.parked[r.key.ID] = r
		}
		if done, err := l.hasResult(ctx, r.key.ID); err != nil {
			return false, err
		} else if done || known[r.key.ID] {
			continue
		}
		known[r.key.ID] = true // ListRecords may give one twice
		calls, err := unsettled(ctx, l.b, l.session, r.key.ID)
		switch {
		case err != nil:
			return false, err
		case r.Parked != nil:
			l.add(r.key.ID).setParked(r)
		case len(calls) > 0:
			l.addUnsettled(calls[0])
		default:
			lost = true
		}
	}
	return lost, nil
}

// readResults adds async calls.
func (l *pageReader) readResults(ctx context.Context, before uint64) (next uint64, err error) {
	first, seen := len(l.tasks), 0
	for m, err := range l.b.Read(ctx, bus.Results, bus.Back(l.b.Result(l.session, "*"), before)) {
		if err != nil {
			return 0, err
		}
		e, err := DecodeResult(l.b, m.Subject, m.Body)
		id := l.b.Split(m.Subject)[2]
		if err == nil && e.Outcome == tools.Async {
			l.add(id).apply(e)
		}
		if seen++; !l.more() || seen >= maxHistoryScan {
			next = m.Sequence
			break
		}
	}
	for _, t := range l.tasks[first:] {
		subject := l.b.Completion(l.session, t.ID)
		m, err := l.b.Last(ctx, bus.Results, subject)
		if err != nil {
			return 0, err
		}
		e, err := DecodeResult(l.b, subject, m.Body)
		switch r, parked := l.parked[t.ID]; {
		case m.Sequence > 0 && err == nil:
			t.apply(e)
		case parked:
			t.setParked(r)
		default:
			l.missing[t.ID] = t
		}
	}
	return next, nil
}

// setRunning asks the workers for the tasks that have not ended.
func (l *pageReader) setRunning(ctx context.Context) error {
	open := map[string]*Task{}
	for _, t := range l.tasks {
		if t.EndedAt.IsZero() && !l.isParked(t.ID) {
			open[t.ID] = t
		}
	}
	if len(open) == 0 {
		return nil
	}
	running, err := ListRunning(ctx, l.b, l.session, func(found map[string]RunningCall) bool {
		for id := range found {
			delete(l.missing, id)
		}
		return len(l.missing) == 0
	})
	for id, r := range running {
		if t := open[id]; t != nil {
			t.setRunning(r)
		}
	}
	for _, t := range l.missing {
		t.Message = noWorker
	}
	return err
}
