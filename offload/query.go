package offload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

// Bounds of a listing. If there are more artifacts, it contains the newest.
const (
	maxListed     = 200
	pageArtifacts = 50        // in an answer for a model
	maxListedSize = 128 << 10 // bytes of JSON
)

// Listing is a list of artifacts, oldest first.
type Listing struct {
	// Count, TotalSize (bytes) and TotalChars count all artifacts; Artifacts contains
	// the newest.
	Count      int              `json:"count"`
	TotalSize  int64            `json:"total_size"`
	TotalChars int64            `json:"total_chars"`
	Artifacts  []ListedArtifact `json:"artifacts"`
	// Offset is how many newer artifacts the page leaves out.
	Offset int `json:"offset,omitempty"`
	// NextOffset is the offset of the page with older artifacts, or 0.
	NextOffset int `json:"next_offset,omitempty"`
	// Damaged counts the records that nobody can read, which are not in the list.
	Damaged int `json:"damaged,omitempty"`
}

// ListedArtifact is an artifact in a listing.
type ListedArtifact struct {
	tools.Artifact
	Session    string            `json:"session"`
	Metadata   map[string]string `json:"metadata,omitempty"`
	CreatedAt  time.Time         `json:"created_at"`
	ExpiresAt  time.Time         `json:"expires_at,omitzero"`
	AgeSeconds int64             `json:"age_seconds"`
}

// Text returns the form for a model: one line for each artifact. Names from outside
// are quoted.
func (l *Listing) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Found %d artifact(s), %d characters in total", l.Count, l.TotalChars)
	if len(l.Artifacts) < l.Count {
		which := "the newest"
		if l.Offset > 0 {
			which = "these"
		}
		fmt.Fprintf(&b, "; %s %d are", which, len(l.Artifacts))
	}
	for i, a := range l.Artifacts {
		if i == 0 {
			b.WriteString(":\n")
		}
		b.WriteString(a.line())
	}
	if l.Damaged > 0 {
		fmt.Fprintf(&b, "\n\n[damaged records of artifacts, which are not in this list: %d]", l.Damaged)
	}
	if l.NextOffset > 0 {
		fmt.Fprintf(&b, "\n\n[there are older ones; continue with offset=%d]", l.NextOffset)
	}
	return b.String()
}

// line returns the line of Text for an artifact.
func (a ListedArtifact) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s: %s, %d characters, about %d tokens, %d lines, %s old", a.ID, a.Type, a.Chars, a.Tokens, a.Lines, age(a.AgeSeconds))
	if a.Truncated {
		b.WriteString(", not complete")
	}
	for _, name := range []string{"tool_name", "action_name", "task_id", "biz_id"} {
		if value := a.Metadata[name]; value != "" && value != a.ID {
			fmt.Fprintf(&b, ", %s %q", name, tools.Excerpt(value, 80))
		}
	}
	return b.String()
}

func age(seconds int64) string {
	d := time.Duration(seconds) * time.Second
	if d >= 48*time.Hour {
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
	return d.String()
}

// Query lists the artifacts of a session whose metadata equals all values of filter.
// A filter may also contain artifact_id and type. An empty filter lists all. The listing leaves
// out the newest offset artifacts, and has at most limit of the others; 0 means the default of 200.
func (r *Reader) Query(ctx context.Context, session string, filter map[string]string, offset, limit int) (*Listing, error) {
	return r.list(ctx, session, filter, offset, limit, 0)
}

// QueryAll is Query for the artifacts of all sessions, for operators.
func (r *Reader) QueryAll(ctx context.Context, offset, limit int) (*Listing, error) {
	return r.listOf(ctx, "", nil, offset, limit, 0)
}

// list is Query. The artifacts of the page have at most maxText bytes in Text; 0 means
// no limit.
func (r *Reader) list(ctx context.Context, session string, filter map[string]string, offset, limit, maxText int) (*Listing, error) {
	if session == "" {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "no session is given")
	}
	return r.listOf(ctx, tools.TokenOf(session), filter, offset, limit, maxText)
}

// listOf lists the artifacts of the session with a token, or of all if it is empty.
func (r *Reader) listOf(ctx context.Context, session string, filter map[string]string, offset, limit, maxText int) (*Listing, error) {
	if offset < 0 || limit < 0 {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "offset and limit must not be negative")
	}
	if err := checkFilter(filter); err != nil {
		return nil, err
	}
	if limit == 0 || limit > maxListed {
		limit = maxListed
	}
	listing := &Listing{Artifacts: []ListedArtifact{}, Offset: offset}
	var recs []Record
	for rec, err := range r.store.List(ctx, session) {
		switch {
		case errors.Is(err, ErrCorrupt): // one bad record must not hide the others
			listing.Damaged++
		case err != nil:
			return nil, fmt.Errorf("list artifacts: %w", err)
		case (session == "" || rec.Session == session) && matches(rec, filter):
			listing.TotalSize += rec.Size
			listing.TotalChars += rec.Chars
			recs = append(recs, rec)
		}
	}
	listing.Count = len(recs)
	recs = recs[:max(len(recs)-offset, 0)]
	size, text := 0, 0
	for n, rec := range slices.Backward(recs) {
		a := ListedArtifact{
			Artifact: rec.Artifact, Session: rec.Session, Metadata: rec.Metadata,
			CreatedAt: rec.CreatedAt, ExpiresAt: rec.ExpiresAt, AgeSeconds: int64(time.Since(rec.CreatedAt).Seconds()),
		}
		size, text = size+jsonLen(a), text+len(a.line())
		if shown := len(recs) - 1 - n; shown == limit || shown > 0 && (size > maxListedSize || maxText > 0 && text > maxText) {
			listing.NextOffset = offset + shown
			break
		}
		listing.Artifacts = append(listing.Artifacts, a)
	}
	slices.Reverse(listing.Artifacts)
	return listing, nil
}

// OffloadInfo is Query for the offloaded tool results of a session, or only those of a task
// if task is not empty.
func (r *Reader) OffloadInfo(ctx context.Context, session, task string, offset, limit int) (*Listing, error) {
	return r.list(ctx, session, ofTask(task), offset, limit, 0)
}

// ofTask returns the filter of the tool results of a task, or of all tasks.
func ofTask(task string) map[string]string {
	filter := map[string]string{"context_type": ContextToolResult}
	if task != "" {
		filter["task_id"] = task
	}
	return filter
}

var metadataKeys = []string{"context_type", "biz_id", "agent_id", "task_id", "session_id", "tool_name", "action_name"}

// checkFilter refuses unknown names: a filter with a typing error would match nothing
// without an error.
func checkFilter(filter map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(filter)) {
		if name != "artifact_id" && name != "type" && !slices.Contains(metadataKeys, name) {
			return tools.Errorf(tools.CodeInvalidArguments, "the filter contains the unknown name %q; known names are artifact_id, type, "+
				"%s", tools.Excerpt(name, 100), strings.Join(metadataKeys, ", "))
		}
	}
	return nil
}

func matches(rec Record, filter map[string]string) bool {
	for name, want := range filter {
		got := rec.Metadata[name]
		switch name {
		case "artifact_id":
			got = rec.ID
		case "type":
			got = rec.Type
		}
		if got != want {
			return false
		}
	}
	return true
}
