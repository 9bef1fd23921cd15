package heartbeat

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/state/durable"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// LogFile is where the runs are written to, in the workspace.
	LogFile = "memory/heartbeat.log"
	// OldLogFile is what was LogFile before it got too long.
	OldLogFile = "memory/heartbeat.log.1"
)

// keepLog writes a line for each run. All processes that keep this heartbeat
// share a consumer that hands out one message at a time, so that one of them
// writes it, and lines are in order.
func (k *keeper) keepLog(ctx context.Context) error {
	name := session(k.cfg.Name)
	results := bus.Consumer{
		Stream: bus.Results, Name: "heartbeat-" + k.cfg.Name,
		Filter:  []string{k.bus.Result(name, "*"), k.bus.Completion(name, "*")},
		Ordered: true,
	}
	return k.bus.Consume(ctx, results, bus.ConsumeConfig{Slots: 1}, func(_ context.Context, d *bus.Delivery) error {
		event, err := tools.DecodeResult(d.Body)
		if err != nil {
			return bus.Reject(bus.CodeUndecodable, err)
		}
		kind := k.bus.Split(d.Subject)[0]
		if kind == "result" && event.Action == tools.ActionAgent {
			return nil // a step of a run; its end is the line
		}
		if err := k.appendLog(logLine(d.Published.Local(), kind, event)); err != nil {
			return fmt.Errorf("heartbeat log: %w", err)
		}
		return nil
	})
}

// appendLog appends a line to the log, and begins a new one if it is full.
func (k *keeper) appendLog(line string) error {
	info, err := k.workspace.Lstat(LogFile)
	if err == nil && info.Mode().IsRegular() && info.Size()+int64(len(line)) > k.cfg.LogBytes {
		if err := k.workspace.Rename(LogFile, OldLogFile); err != nil {
			return err
		}
	}
	return durable.Dir{Root: k.workspace}.AppendFile(LogFile, []byte(line), 0o644)
}

// logLine is one line: [2006-01-02 15:04:05] [LEVEL] message.
func logLine(at time.Time, kind string, e tools.ResultEvent) string {
	level, what := "INFO", string(e.Outcome)
	switch {
	case e.IsError:
		level = "ERROR"
	case e.Outcome == tools.Async && kind == "result":
		what = "started in the background"
	}
	text := e.ForUser
	if strings.TrimSpace(text) == "" {
		text = e.ForLLM
	}
	if e.Error != nil && !strings.Contains(text, e.Error.Message) {
		text = e.Error.Message + ": " + text
	}
	text = tools.EscapeLine(tools.Excerpt(strings.TrimSpace(text), 500))
	took := (time.Duration(e.DurationMS) * time.Millisecond).String()
	return fmt.Sprintf("[%s] [%s] %s %s %s after %s: %s\n", at.Format(time.DateTime), level,
		tools.EscapeLine(e.ID), tools.EscapeLine(e.Tool), tools.EscapeLine(what), took, text)
}
