package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
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
// A file without a version has version 1.
type document struct {
	Facts     map[string]Fact `json:"facts"`
	Revision  uint64          `json:"revision"` // the number of saves
	UpdatedAt time.Time       `json:"updated_at"`
	Version   int             `json:"version"`
}

// documentVersion is the version of the format. A program that reads an earlier version
// as well converts it in parseDocument.
const documentVersion = 1

// parseDocument returns a *corruptError, or another error for a version that this program does not read.
func parseDocument(data []byte) (*document, error) {
	var format struct {
		Version json.RawMessage `json:"version"`
	}
	if err := json.Unmarshal(data, &format); err != nil {
		return nil, &corruptError{err}
	}
	if v := string(format.Version); v != "" && v != strconv.Itoa(documentVersion) {
		return nil, fmt.Errorf("the file has version %s; this program reads version %d; use the version of Stevedore that wrote the file, or "+
			"move the file aside", v, documentVersion)
	}
	var d *document
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, &corruptError{err}
	}
	if d == nil {
		return nil, &corruptError{errors.New("want an object, got null")}
	}
	for key, fact := range d.Facts {
		if fact.Value == "" {
			return nil, &corruptError{fmt.Errorf("fact %q has no value", key)}
		}
	}
	return d, nil
}

// with returns a copy that has the values, and its encoding. If the document is too
// large, with removes the other facts that were written longest ago, so that many
// sessions cannot keep new ones from being recorded.
func (d *document) with(values map[string]string, now time.Time) (*document, []byte, error) {
	next := &document{maps.Clone(d.Facts), d.Revision + 1, now, documentVersion}
	if next.Facts == nil {
		next.Facts = make(map[string]Fact)
	}
	for key, value := range values {
		next.Facts[key] = Fact{value, now}
		if value == "" {
			delete(next.Facts, key)
		}
	}
	for {
		excess := 0
		if len(next.Facts) <= maxFacts {
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
	keys := slices.Collect(maps.Keys(d.Facts))
	keys = slices.DeleteFunc(keys, func(key string) bool { _, ok := keep[key]; return ok })
	slices.SortFunc(keys, func(a, b string) int {
		return d.Facts[a].UpdatedAt.Compare(d.Facts[b].UpdatedAt)
	})
	for i, key := range keys {
		if i >= (len(keys)+9)/10 && excess <= 0 {
			break
		}
		excess -= len(key) + len(d.Facts[key].Value)
		delete(d.Facts, key)
	}
	return len(keys) > 0
}

func (d *document) encode() ([]byte, error) {
	data, err := json.MarshalIndent(d, "", "  ")
	return append(data, '\n'), err
}
