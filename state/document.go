package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// maxFacts and maxFileSize (bytes) limit the file, because each save writes all
// of it. A session and its chat have two facts, so the file has the last channels of about
// the 900 sessions that were used last.
const (
	maxFacts    = 2_000
	maxFileSize = 16 << 20
)

// document is the content of a state file:
//
//	{
//	  "version": 1,
//	  "facts": {
//	    "last_channel": {
//	      "value": "telegram:12345",
//	      "updated_at": "2026-01-02T15:04:05.123Z"
//	    }
//	  },
//	  "revision": 2,
//	  "updated_at": "2026-01-02T15:04:05.123Z"
//	}
//
// A save keeps the fields that this program does not know. A file without a version has
// version 1.
type document struct {
	revision  uint64 // the number of saves
	updatedAt time.Time
	facts     map[string]Fact
	other     map[string]json.RawMessage
}

// documentVersion is the version of the format. A program that reads an earlier version
// as well converts it in parseDocument.
const documentVersion = 1

// versionError means that the file has a version that this program does not read.
type versionError struct{ have string }

func (e *versionError) Error() string {
	return fmt.Sprintf("the file has version %s; this program reads version %d; use the version of Stevedore that wrote the file, or move the file aside", e.have, documentVersion)
}

func parseDocument(data []byte) (*document, error) {
	// encoding/json matches struct fields in any case; a map matches exactly.
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	if fields == nil {
		return nil, errors.New("want an object, got null")
	}
	if raw, ok := fields["version"]; ok {
		var version int
		if json.Unmarshal(raw, &version) != nil || version != documentVersion {
			return nil, &versionError{string(raw)}
		}
		delete(fields, "version")
	}
	d := &document{other: fields}
	for name, field := range map[string]any{"revision": &d.revision, "updated_at": &d.updatedAt, "facts": &d.facts} {
		if raw, ok := fields[name]; ok {
			if err := json.Unmarshal(raw, field); err != nil {
				return nil, fmt.Errorf("field %q: %w", name, err)
			}
			delete(fields, name)
		}
	}
	for key, fact := range d.facts {
		if fact.Value == "" {
			return nil, fmt.Errorf("fact %q has no value", key)
		}
	}
	return d, nil
}

// with returns a copy that has the values, and its encoding. If the document is too
// large, with removes the other facts that were written longest ago, so that many
// sessions cannot keep new ones from being recorded.
func (d *document) with(values map[string]string, now time.Time) (*document, []byte, error) {
	next := &document{d.revision + 1, now, maps.Clone(d.facts), d.other}
	if next.facts == nil {
		next.facts = make(map[string]Fact)
	}
	for key, value := range values {
		next.facts[key] = Fact{value, now}
		if value == "" {
			delete(next.facts, key)
		}
	}
	for {
		excess := 0
		if len(next.facts) <= maxFacts {
			data, err := next.encode()
			if excess = len(data) - maxFileSize; err != nil || excess <= 0 {
				return next, data, err
			}
		}
		if !next.removeOldest(values, excess) {
			return nil, nil, fmt.Errorf("the values do not fit: a state file has at most %d facts and %d bytes", maxFacts, maxFileSize)
		}
	}
}

// removeOldest removes a tenth of the facts that are not in keep, and more until they
// had excess bytes. It reports false if there is none.
func (d *document) removeOldest(keep map[string]string, excess int) bool {
	keys := slices.Collect(maps.Keys(d.facts))
	keys = slices.DeleteFunc(keys, func(key string) bool { _, ok := keep[key]; return ok })
	slices.SortFunc(keys, func(a, b string) int {
		return d.facts[a].UpdatedAt.Compare(d.facts[b].UpdatedAt)
	})
	for i, key := range keys {
		if i >= (len(keys)+9)/10 && excess <= 0 {
			break
		}
		excess -= len(key) + len(d.facts[key].Value)
		delete(d.facts, key)
	}
	return len(keys) > 0
}

func (d *document) encode() ([]byte, error) {
	fields := map[string]any{"version": documentVersion, "revision": d.revision, "updated_at": d.updatedAt, "facts": d.facts}
	for name, raw := range d.other {
		fields[name] = raw
	}
	data, err := json.MarshalIndent(fields, "", "  ")
	return append(data, '\n'), err
}
