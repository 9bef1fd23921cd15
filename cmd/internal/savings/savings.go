// Package savings counts how many characters of results reached the models of coding hosts. Each
// result, and each page that was read back, is a line of savings/DAY.jsonl in the data directory
// (DAY in UTC), which many processes append to. A process that is killed loses no line that it
// wrote; only a crash of the computer may lose the last ones, because lines are not synced.
package savings

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/hosts"
	"github.com/stevedore-bus/stevedore/tools"
)

// Shell is the tool of outputs of commands, as "stevedore run" stores them.
const Shell = "run"

// version is that of the lines.
const version = 1

// Line is what one result or one page cost, in characters.
type Line struct {
	// Version is set by Add.
	Version int `json:"v"`
	// Host is the host, or the name that the MCP client gives itself.
	Host string `json:"host"`
	Tool string `json:"tool"`
	// Whole is the length of a result, and Shown what the model got instead.
	Whole int64 `json:"whole,omitempty"`
	Shown int64 `json:"shown,omitempty"`
	// Read is the length of a page of an earlier result.
	Read int64 `json:"read,omitempty"`
}

// keep is how long the lines of a day are kept.
const keep = 90 * 24 * time.Hour

// Add appends a line. The first line of a day removes the days that are too old. A user without a
// home has no data directory: then Add returns an error.
func Add(data string, l Line) error {
	if data == "" {
		return errors.New("there is no data directory")
	}
	dir, now := filepath.Join(data, "savings"), time.Now()
	l.Host, l.Tool = tools.Excerpt(cmp.Or(l.Host, "unknown"), 64), tools.Excerpt(cmp.Or(l.Tool, "unknown"), 64)
	l.Version = version
	text, err := json.Marshal(l)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(dir, day(now)), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if info, err := file.Stat(); err == nil && info.Size() == 0 {
		for _, old := range days(dir) {
			if old < day(now.Add(-keep)) {
				_ = os.Remove(filepath.Join(dir, old)) // the next day tries again
			}
		}
	}
	_, err = file.Write(append(text, '\n'))
	return errors.Join(err, file.Close())
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) + ".jsonl" }

// days returns the names of the files, the oldest first.
func days(dir string) (names []string) {
	entries, _ := os.ReadDir(dir) // without the directory, nothing was counted
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".jsonl") {
			names = append(names, e.Name())
		}
	}
	return names
}

// Sum is what the results of a tool cost in a host, in characters.
type Sum struct {
	Host    string `json:"host"`
	Tool    string `json:"tool"`
	Results int    `json:"results"`
	Whole   int64  `json:"whole"`
	// Alone is about what the host shows without Stevedore: many hosts cut long results.
	Alone int64 `json:"alone"`
	Shown int64 `json:"shown"`
	Read  int64 `json:"read"`
	// Saved is Alone without Shown and Read. It is negative if Stevedore cost more than it saved.
	Saved int64 `json:"saved"`
}

// Add adds another sum.
func (s *Sum) Add(o Sum) {
	s.Results += o.Results
	s.Whole, s.Alone, s.Shown, s.Read = s.Whole+o.Whole, s.Alone+o.Alone, s.Shown+o.Shown, s.Read+o.Read
	s.Saved = s.Alone - s.Shown - s.Read
}

// Read returns the sums of the days since a time, by host and tool. It skips lines that are
// damaged. A line of another version is an error.
func Read(data string, since time.Time) ([]Sum, error) {
	dir, sums := filepath.Join(data, "savings"), []Sum{}
	for _, name := range days(dir) {
		if name < day(since) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		for line := range bytes.Lines(text) {
			var l Line
			if json.Unmarshal(line, &l) != nil {
				continue
			}
			if l.Version != version {
				return nil, fmt.Errorf("%s has lines of format %d, and this program reads format %d; use the program that wrote them, or remove "+
					"the file", filepath.Join(dir, name), l.Version, version)
			}
			limits, host := hosts.LimitsOf(l.Host), l.Host
			if limits.Tool+limits.Shell > 0 {
				host = limits.Client
			}
			i, found := slices.BinarySearchFunc(sums, l, func(s Sum, l Line) int {
				return cmp.Or(cmp.Compare(s.Host, host), cmp.Compare(s.Tool, l.Tool))
			})
			if !found {
				sums = slices.Insert(sums, i, Sum{Host: host, Tool: l.Tool})
			}
			sums[i].Add(Sum{Results: min(1, int(l.Whole)), Whole: l.Whole, Alone: limits.Shown(l.Whole, l.Tool == Shell), Shown: l.Shown, Read: l.Read})
		}
	}
	return sums, nil
}
