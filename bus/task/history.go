package task

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// Ending is a stored result or completion, without its texts.
type Ending struct {
	Sequence uint64    `json:"sequence"`
	StoredAt time.Time `json:"stored_at"`
	// Session and ID are tokens; Name is the id as the client wrote it, if it differs.
	Session string        `json:"session"`
	ID      string        `json:"id"`
	Name    string        `json:"name,omitempty"`
	Tool    string        `json:"tool"`
	Outcome tools.Outcome `json:"outcome"`
	Attempt int           `json:"attempt,omitempty"`
	Worker  string        `json:"worker,omitempty"`

	StartedAt  time.Time       `json:"started_at,omitzero"`
	DurationMS int64           `json:"duration_ms"`
	Artifact   *tools.Artifact `json:"artifact,omitempty"`
	// Args are the start of the arguments.
	Args string `json:"args_excerpt,omitempty"`
	// Text is the beginning of the result, or its error, in one line.
	Text string `json:"text"`
}

// maxEndingText is the length of Ending.Text in characters.
const maxEndingText = 160

// HistoryQuery selects endings. The zero value selects the newest 100 of all sessions.
type HistoryQuery struct {
	Session string        `json:"session"` // empty means all
	Tool    string        `json:"tool"`    // empty means all
	Outcome tools.Outcome `json:"outcome"` // empty means all
	// Text is a part of the session, the id, the arguments (args_excerpt) or the text of the
	// result or of its error, in upper or lower case; empty means all.
	Text   string  `json:"text"`
	Last   float64 `json:"last"`   // seconds before now; 0 means all
	Before uint64  `json:"before"` // sequence; 0 means the newest
	Limit  int     `json:"limit"`  // of the endings; default 100, at most 500
}

// History is a page of the endings, newest first.
type History struct {
	Endings []Ending `json:"calls"`
	// Next is the Before of the next page; 0 if this is the last one. A page may have
	// fewer endings than the limit although there are more.
	Next uint64 `json:"next,omitempty"`
}

// maxHistoryScan limits the results that one ReadHistory looks at.
const maxHistoryScan = 4000

// ReadHistory returns results and completions of calls, newest first. An async call
// has two endings: its result and its completion.
func ReadHistory(ctx context.Context, b *bus.Bus, q HistoryQuery) (History, error) {
	h := History{Endings: []Ending{}}
	if q.Limit == 0 {
		q.Limit = defaultPage
	}
	if q.Limit < 0 || q.Limit > maxListed {
		return h, tools.Errorf(tools.CodeInvalidArguments, "limit %d: want 1 to %d", q.Limit, maxListed)
	}
	since, err := Since(q.Last)
	if err != nil {
		return h, err
	}
	session, seen := "*", 0
	if q.Session != "" {
		session = tools.TokenOf(q.Session)
	}
	for m, err := range b.Read(ctx, bus.Results, bus.Back(b.ResultsOf(session), q.Before)) {
		if err != nil {
			return h, err
		}
		if q.Last > 0 && m.At.Before(since) {
			break
		}
		if e, r, ok := EndingOf(b, m); ok && q.matches(e, r) {
			h.Endings = append(h.Endings, e)
		}
		if seen++; len(h.Endings) >= q.Limit || seen >= maxHistoryScan {
			h.Next = m.Sequence
			break
		}
	}
	return h, nil
}

// Since returns the time that is a number of seconds before now.
func Since(seconds float64) (time.Time, error) {
	const most = 1 << 33 // a time.Duration can hold it
	if seconds < 0 || seconds > most {
		return time.Time{}, tools.Errorf(tools.CodeInvalidArguments, "last %g: want a number of seconds from 0 to %d", seconds, most)
	}
	return time.Now().Add(-time.Duration(seconds * float64(time.Second))), nil
}

// EndingOf decodes a message of the results stream, and returns its event too. ok is false for a
// claim or a report, and for a message that is not a result.
func EndingOf(b *bus.Bus, m bus.Stored) (e Ending, r tools.ResultEvent, ok bool) {
	tokens := b.Split(m.Subject)
	if len(tokens) != 3 || tokens[0] != ResultKind && tokens[0] != CompletionKind {
		return Ending{}, r, false
	}
	r, err := DecodeResult(b, m.Subject, m.Body)
	if err != nil {
		return Ending{}, r, false
	}
	e = Ending{
		Sequence: m.Sequence, StoredAt: m.At, Session: tokens[1], ID: tokens[2], Tool: tools.Excerpt(r.Tool, 80),
		Outcome: r.Outcome, Attempt: r.Attempt, Worker: tools.Excerpt(r.Worker, 80),
		StartedAt: r.StartedAt, DurationMS: r.DurationMS, Artifact: r.Artifact, Args: r.Args,
	}
	if r.ID != e.ID {
		e.Name = tools.Excerpt(r.ID, 200)
	}
	text := r.ForLLM
	if r.Error != nil && text == "" {
		text = r.Error.Message
	}
	e.Text = tools.Excerpt(tools.OneLine(tools.Excerpt(text, 4*maxEndingText)), maxEndingText)
	return e, r, true
}

func (q HistoryQuery) matches(e Ending, r tools.ResultEvent) bool {
	return (q.Tool == "" || e.Tool == q.Tool) && (q.Outcome == "" || e.Outcome == q.Outcome) && (q.Text == "" || hasText(r, strings.ToLower(q.Text)))
}

// hasText reports whether a result has a text, which is in lower case.
func hasText(r tools.ResultEvent, text string) bool {
	fields := []string{r.Session, r.ID, r.Args, r.ForLLM}
	if r.Error != nil {
		fields = append(fields, r.Error.Message)
	}
	return slices.ContainsFunc(fields, func(field string) bool { return strings.Contains(strings.ToLower(field), text) })
}
