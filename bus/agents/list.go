package agents

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/session"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// Conversation is a conversation in a list.
type Conversation struct {
	Session string `json:"session"` // token
	// Name of the session for people: as its first call has it, and for a sub-agent the name of the
	// agent that started it, a slash and a number.
	Name  string `json:"name,omitempty"`
	Title string `json:"title,omitempty"`
	// At is the time of the last entry.
	At time.Time `json:"at"`
	// State is "open" while a run goes on, otherwise how the last run ended, or "none" if the log
	// has only notices.
	State string `json:"state"`
	// Parent is the session (a token) whose run started this sub-agent.
	Parent string `json:"parent,omitempty"`
	// Total is with that of the sub-agents.
	agent.Total
	// Match is the text around the newest place where the text of the query was found.
	Match string `json:"match,omitempty"`
}

// SessionList is a page of conversations. Next is the Before of the next page; 0 if there is none. A
// page may have fewer conversations than the limit although there are more; of a query with a text,
// later pages may have a conversation again.
type SessionList struct {
	Sessions []Conversation `json:"sessions"`
	Next     uint64         `json:"next"`
}

// ListQuery selects conversations.
type ListQuery struct {
	// Text is a part of a message of the user or of the model, or of the name of the session,
	// in upper or lower case. Empty means all.
	Text string `json:"text"`
	// Before is where an earlier page ended; 0 means the newest.
	Before uint64 `json:"before"`
	// Limit of the page. 0 means all conversations, without a text or Before.
	Limit int `json:"limit"`
	// OpenTotals also reads what a conversation used while a run goes on, back to the end of the
	// run before.
	OpenTotals bool `json:"open_totals"`
}

const (
	// maxListEntries and maxListBytes limit the entries that one List looks at.
	maxListEntries = 4000
	maxListBytes   = 32 << 20
	// maxStateEntries limits how far List looks back for the end of the last run, and
	// maxTitleEntries how far it looks for the first message. Notices do not count: there may be many.
	maxStateEntries = 200
	maxTitleEntries = 5
	maxTitle        = 100 // bytes
)

// list returns the conversations that a query selects, the one with the newest entry or match
// first.
func list(ctx context.Context, b *bus.Bus, q ListQuery) (SessionList, error) {
	if q.Limit == 0 {
		all, err := listAll(ctx, b, q.OpenTotals)
		return SessionList{Sessions: all}, err
	}
	list := []Conversation{}
	text, seen, scanned, size := strings.ToLower(tools.OneLine(q.Text)), map[string]bool{}, 0, 0
	for m, err := range b.Read(ctx, bus.Sessions, bus.Back(b.Session("*"), q.Before)) {
		if err != nil {
			return SessionList{}, fmt.Errorf("list conversations: %w", err)
		}
		session := strings.TrimPrefix(m.Subject, b.Session(""))
		if match, ok := find(session, m.Body, text); ok && !seen[session] {
			seen[session] = true
			line, last, err := describe(ctx, b, session, q.OpenTotals, 0)
			if err != nil {
				return SessionList{}, fmt.Errorf("list conversations: %w", err)
			}
			line.Match = match
			if text != "" || q.Before == 0 || last < q.Before { // otherwise, an earlier page has it
				list = append(list, line)
			}
		}
		size += len(m.Body)
		if scanned++; len(list) >= q.Limit || scanned >= maxListEntries || size >= maxListBytes {
			return SessionList{list, m.Sequence}, nil
		}
	}
	return SessionList{Sessions: list}, nil
}

// listAll reads no more than it needs of each log.
func listAll(ctx context.Context, b *bus.Bus, openTotals bool) (list []Conversation, err error) {
	names, err := session.New(b).List(ctx)
	for _, name := range names {
		line, last, err := describe(ctx, b, name, openTotals, 0)
		if err != nil {
			return nil, fmt.Errorf("list conversations: %w", err)
		}
		if last > 0 {
			list = append(list, line)
		}
	}
	slices.SortStableFunc(list, func(a, b Conversation) int { return b.At.Compare(a.At) })
	return list, err
}

// find looks for a text in an entry and in the name of its session.
func find(session string, body []byte, text string) (match string, ok bool) {
	if text == "" || strings.Contains(strings.ToLower(session), text) {
		return "", true
	}
	e, err := agent.DecodeEntry(body)
	if err != nil || e.Message == nil {
		return "", false
	}
	words := tools.OneLine(agent.TextOf(e.Message.Content))
	at := strings.Index(strings.ToLower(words), text)
	if at < 0 {
		return "", false
	}
	const around = 40
	return strings.ToValidUTF8(tools.Excerpt(words[min(max(0, at-around), len(words)):], len(text)+2*around), ""), true
}

// describe returns the line of a session and the sequence of its last entry.
func describe(ctx context.Context, b *bus.Bus, session string, openTotals bool, depth int) (line Conversation, last uint64, err error) {
	first, err := firstMessage(ctx, b, session)
	if err != nil {
		return line, last, err
	}
	line = Conversation{Session: session, Title: titleOf(first), Name: nameOf(first, session)}
	if first.Call != nil {
		line.Parent, _ = agent.ParentSession(first.Call.Session)
	}
	left := maxStateEntries
	for m, err := range b.Read(ctx, bus.Sessions, bus.Query{Subject: b.Session(session), Limit: maxListEntries, Back: true}) {
		if err != nil {
			return line, last, err
		}
		if last == 0 {
			line.At, last = m.At, m.Sequence
		}
		e, err := agent.DecodeEntry(m.Body)
		if e.Kind == agent.KindNotice { // it changes no run
			continue
		}
		if left--; left < 0 {
			break
		}
		switch {
		case line.State != "":
		case err != nil:
			line.State = "unreadable"
		case e.Kind == agent.KindEnd && e.End != nil:
			line.State = tools.Excerpt(string(e.End.Reason), 80)
		default: // its call may have ended without it, for example in a dead letter
			var call *tools.Call // of a sub-agent, it is the first one
			if e.Run == first.Run {
				call = first.Call
			}
			ended, err := (busCaller{b}).endOf(ctx, agent.RunKey(session, e.Run, call))
			if err != nil {
				return line, last, err
			}
			line.State = cmp.Or(string(ended), "open")
		}
		if e.Kind == agent.KindEnd && e.Total != nil {
			line.Include(*e.Total)
			break
		}
		if line.State != "" && !openTotals {
			break
		}
		line.Count(e)
	}
	line.State = cmp.Or(line.State, "none")
	if line.Subagents > 0 && depth < maxNesting {
		err = line.addSubagents(ctx, b, openTotals, depth)
	}
	return line, last, err
}

// addSubagents adds what the sub-agents of a conversation used.
func (c *Conversation) addSubagents(ctx context.Context, b *bus.Bus, openTotals bool, depth int) error {
	children, err := SubSessions(b)(ctx, c.Session)
	for _, child := range children {
		line, _, err := describe(ctx, b, tools.TokenOf(child), openTotals, depth+1)
		if err != nil {
			return err
		}
		c.Include(line.Total)
	}
	return err
}

// NameOf returns the name of a session that is given by its name, by its token, as lists have it, or,
// if it is that of a sub-agent, by its name for people. A new call needs the name, which is in the
// conversation and in results.
func NameOf(ctx context.Context, b *bus.Bus, session string) (string, error) {
	if parent, number, ok := agent.ParseSubagentName(session); ok {
		return nameOfSubagent(ctx, b, session, parent, number)
	}
	if !tools.IsHash(session) {
		return session, nil
	}
	first, err := firstMessage(ctx, b, session)
	if err != nil {
		return "", err
	}
	if first.Call != nil && tools.Token(first.Call.Session) == session {
		return first.Call.Session, nil
	}
	for m, err := range b.Read(ctx, bus.Results, bus.Query{Subject: b.Result(session, "*"), Limit: maxTitleEntries}) {
		if err != nil {
			return "", err
		}
		if event, err := tools.DecodeResult(m.Body); err == nil && tools.Token(event.Session) == session {
			return event.Session, nil
		}
	}
	return "", tools.Errorf(tools.CodeNotFound, "session %q: nothing is stored of a session with this token; give its name", session)
}

// nameOfSubagent returns the name of the session of a sub-agent, or the given one if there is no
// such sub-agent, or if it is that of a user.
func nameOfSubagent(ctx context.Context, b *bus.Bus, given, parent string, number int) (string, error) {
	if first, err := firstMessage(ctx, b, tools.TokenOf(given)); err != nil || first.Call != nil {
		return given, err
	}
	parent, err := NameOf(ctx, b, parent)
	if err != nil {
		return "", err
	}
	children, err := SubSessions(b)(ctx, tools.TokenOf(parent))
	if err != nil || number > len(children) {
		return given, err
	}
	return children[number-1], nil
}

// Title returns the beginning of the first message of the user that is stored of a session (a
// token), or "", and the name of the session for people.
func Title(ctx context.Context, b *bus.Bus, session string) (title, name string, err error) {
	first, err := firstMessage(ctx, b, session)
	return titleOf(first), nameOf(first, session), err
}

// firstMessage returns the entry of the first message of the user, if one of the first entries that
// are stored of a session has one.
func firstMessage(ctx context.Context, b *bus.Bus, session string) (agent.Entry, error) {
	left := maxTitleEntries
	for m, err := range b.Read(ctx, bus.Sessions, bus.Query{Subject: b.Session(session), Limit: maxListEntries}) {
		if err != nil {
			return agent.Entry{}, err
		}
		e, err := agent.DecodeEntry(m.Body)
		if err == nil && e.Kind == agent.KindUser && e.Message != nil {
			return e, nil
		}
		if e.Kind != agent.KindNotice {
			left--
		}
		if left == 0 {
			break
		}
	}
	return agent.Entry{}, nil
}

func titleOf(first agent.Entry) string {
	if first.Message == nil {
		return ""
	}
	return tools.Excerpt(tools.OneLine(tools.Excerpt(agent.TextOf(first.Message.Content), 4*maxTitle)), maxTitle)
}

// nameOf returns the name of a session (a token) for people.
func nameOf(first agent.Entry, session string) string {
	switch {
	case first.Limits != nil && first.Limits.Name != "":
		return first.Limits.Name
	case first.Call != nil:
		return cmp.Or(first.Call.Session, session)
	}
	return session
}
