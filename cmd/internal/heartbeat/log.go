package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/state/durable"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// LogFile is the log of runs, in the workspace.
	LogFile = "memory/heartbeat.log"
	// OldLogFile is the previous LogFile.
	OldLogFile = "memory/heartbeat.log.1"
	// maxLogBytes is about 10,000 runs.
	maxLogBytes = 1 << 20
)

// writeLog writes a line for each run.
func (s *scheduler) writeLog(ctx context.Context) error {
	return dead.Consume(ctx, s.bus, s.bus.HeartbeatConsumer(), consume.Config{Slots: 1}, nil, func(_ context.Context, d *consume.Delivery) error {
		event, err := task.DecodeResult(s.bus, d.Subject, d.Body)
		if err != nil {
			return nil // no worker published it, and nobody takes it for a result
		}
		kind := s.bus.Split(d.Subject)[0]
		if kind == task.ResultKind && event.Action == tools.ActionAgent {
			return nil // a call of the agent; only the run itself is logged
		}
		if err := s.appendLog(logLine(d.Published.Local(), kind, event)); err != nil {
			return fmt.Errorf("heartbeat log: %w", err)
		}
		return nil
	})
}

// logHeader is the first line of a log. It tells a person who finds no run what to look for.
const logHeader = "# Each run of the heartbeat adds a line: [time] [level] call tool outcome: reply. " +
	"Without a line, no run has ended; see stevedore status.\n"

// appendLog appends a line to the log. If there is no log, or it is full, it starts a new one;
// without a line, it only does that.
func (s *scheduler) appendLog(line string) error {
	info, err := s.workspace.Lstat(LogFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		line = logHeader + line
	case err == nil && info.Mode().IsRegular() && info.Size()+int64(len(line)) > maxLogBytes:
		if err := s.workspace.Rename(LogFile, OldLogFile); err != nil {
			return err
		}
		line = logHeader + line
	case line == "":
		return nil
	}
	return durable.Dir{Root: s.workspace}.AppendFile(LogFile, []byte(line), 0o644)
}

// maxLogText is how much of a reply a line contains, in bytes.
const maxLogText = 4000

// logLine returns a line: [2006-01-02 15:04:05] [LEVEL] message.
func logLine(at time.Time, kind string, e tools.ResultEvent) string {
	level, what := "INFO", string(e.Outcome)
	switch {
	case e.IsError:
		level = "ERROR"
	case e.Outcome == tools.Async && kind == task.ResultKind:
		what = "started in the background"
	}
	text := e.ForUser
	if strings.TrimSpace(text) == "" {
		text = e.ForLLM
	}
	if e.Error != nil && !strings.Contains(text, e.Error.Message) {
		text = e.Error.Message + ": " + text
	}
	text = tools.EscapeLine(tools.Excerpt(strings.TrimSpace(text), maxLogText))
	took := (time.Duration(e.DurationMS) * time.Millisecond).String()
	return fmt.Sprintf("[%s] [%s] %s %s %s after %s: %s\n", at.Format(time.DateTime), level,
		tools.EscapeLine(e.ID), tools.EscapeLine(e.Tool), tools.EscapeLine(what), took, text)
}
