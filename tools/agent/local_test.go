package agent_test

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// localRunner is a ToolRunner in this process. It offloads long results and
// repeats none of its calls.
type localRunner struct {
	registry  *tools.Registry
	offloader *offload.Offloader

	mu    sync.Mutex
	calls map[[2]string]func() tools.ResultEvent
}

func (l *localRunner) Call(ctx context.Context, call tools.Call) (tools.ResultEvent, error) {
	if err := call.Validate(); err != nil {
		return tools.ResultEvent{}, err
	}
	key := [2]string{call.SessionToken(), call.IDToken()}
	l.mu.Lock()
	result, known := l.calls[key]
	if !known {
		result = sync.OnceValue(func() tools.ResultEvent { return l.run(context.WithoutCancel(ctx), call) }) // the end of a loop does not end its calls
		l.calls[key] = result
	}
	l.mu.Unlock()
	return result(), nil
}

func (l *localRunner) run(ctx context.Context, call tools.Call) tools.ResultEvent {
	def, _ := l.registry.Definition(call.Tool)
	res := l.registry.Run(ctx, call, nil)
	defer res.Close()
	light, err := l.offloader.Result(ctx, call, def, res)
	if err != nil {
		light = l.offloader.Fallback(call, res, err)
	}
	return tools.NewResultEvent(call, light)
}

// memConversations are Conversations in memory. The zero value is empty.
type memConversations struct {
	mu       sync.Mutex
	sessions map[string][][]byte
	lag      int // so many reads miss the last entry, as a replica that lags behind would
	read     int // entries that reads returned
}

// replace replaces the log of a session.
func (m *memConversations) replace(session string, entries [][]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sessions[session] = entries
}

// entriesRead returns how many entries reads have returned.
func (m *memConversations) entriesRead() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.read
}

func (m *memConversations) Read(_ context.Context, session string, after uint64) ([][]byte, uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	entries := m.sessions[session]
	if m.lag > 0 && len(entries) > 0 {
		m.lag--
		entries = entries[:len(entries)-1]
	}
	last := max(uint64(len(entries)), after)
	entries = slices.Clone(entries[min(after, uint64(len(entries))):])
	m.read += len(entries)
	return entries, last, nil
}

func (m *memConversations) Append(_ context.Context, session string, after uint64, entry []byte) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if uint64(len(m.sessions[session])) != after {
		return 0, agent.ErrConflict
	}
	if m.sessions == nil {
		m.sessions = map[string][][]byte{}
	}
	m.sessions[session] = append(m.sessions[session], bytes.Clone(entry))
	return after + 1, nil
}
