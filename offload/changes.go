package offload

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// maxCompared is the size in bytes of the largest content that is compared with the one before.
	maxCompared = 4 << 20
	// changedLines is how many new lines, and how many that are gone, a reference shows.
	changedLines = 3
)

// changes says how a result differs from that of the last call of the session with the same tool
// and arguments, or returns "" if there was none, or one of them is too long or has one line. Like
// sameAs, it knows only what this process stored lately.
func (o *Offloader) changes(ctx context.Context, call tools.Call, rec Record, b body) string {
	if len(call.Args) == 0 { // the caller does not say them, as the proxy of MCP servers
		return ""
	}
	c := sameContent{rec.Session, fmt.Sprintf("%s %x", call.Tool, sha256.Sum256(call.Args))}
	last := o.lastCalls.first(c, rec.ID)
	o.lastCalls.replace(c, rec.ID)
	if last == rec.ID || rec.sameAs != "" || b.blocks != nil || rec.Lines < 2 || rec.Size > maxCompared {
		return ""
	}
	before, err := o.store.Get(ctx, rec.Session, last)
	if err != nil || before.Lines < 2 || before.Size > maxCompared || before.Digest == rec.Digest {
		return ""
	}
	content, err := o.store.Open(ctx, before)
	if err != nil {
		return ""
	}
	defer content.Close()
	old, err := readRange(content, 0, before.Size)
	if err != nil {
		return ""
	}
	now, err := io.ReadAll(io.NewSectionReader(b.raw, 0, b.raw.Size()))
	if err != nil {
		return ""
	}
	return fmt.Sprintf("Compared with the artifact '%s', which the same call returned before, %s\n", attribute(last), compareLines(string(old), string(now)))
}

// compareLines counts the lines that only one of two texts has, and shows the first of them.
func compareLines(old, now string) string {
	counts := map[string]int{}
	for line := range strings.Lines(old) {
		counts[line]++
	}
	var added, gone strings.Builder
	more, less := 0, 0
	show := func(b *strings.Builder, n int, sign, line string) {
		if n <= changedLines {
			fmt.Fprintf(b, "\n%s %s", sign, neutralise(tools.Excerpt(strings.TrimRight(line, "\r\n"), 160)))
		}
	}
	for line := range strings.Lines(now) {
		if counts[line]--; counts[line] < 0 {
			more++
			show(&added, more, "+", line)
		}
	}
	for line := range strings.Lines(old) {
		if counts[line] > 0 {
			counts[line]--
			less++
			show(&gone, less, "-", line)
		}
	}
	if more+less == 0 {
		return "it has the same lines in another order."
	}
	return fmt.Sprintf("it has %d new lines, and %d are gone; the first of them:%s%s", more, less, added.String(), gone.String())
}
