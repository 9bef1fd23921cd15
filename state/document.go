package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// document is the content of a state file. People read it, so each fact has a
// line of its own:
//
//	{
//	  "revision": 2,
//	  "updated_at": "2026-01-02T15:04:05.123Z",
//	  "facts": {
//	    "last_channel": {"value":"telegram:12345","revision":2,"updated_at":"..."}
//	  }
//	}
//
// Fields that this version does not know are kept, in the document and in each
// fact. The zero document is that of a file that is not there.
type document struct {
	revision  uint64
	updatedAt time.Time
	facts     map[string]entry
	other     map[string]json.RawMessage // unknown fields
}

// entry is a fact with its JSON, so that a save encodes only what it changes.
type entry struct {
	Fact
	json  []byte                     // nil: to be encoded
	other map[string]json.RawMessage // unknown fields, nil if none
}

type factJSON struct {
	Value     string    `json:"value"`
	Revision  uint64    `json:"revision"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`
}

func parseDocument(data []byte) (*document, error) {
	// By exact name: into a struct, "Facts" would be decoded as "facts", and be
	// kept as an unknown field beside it.
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	if fields == nil {
		return nil, errors.New("want an object, got null")
	}
	d := &document{other: fields}
	var facts map[string]json.RawMessage
	for name, into := range map[string]any{"revision": &d.revision, "updated_at": &d.updatedAt, "facts": &facts} {
		if raw, ok := fields[name]; ok {
			if err := json.Unmarshal(raw, into); err != nil {
				return nil, fmt.Errorf("field %q: %w", name, err)
			}
			delete(fields, name)
		}
	}
	d.facts = make(map[string]entry, len(facts))
	for key, raw := range facts {
		if err := checkKey(key); err != nil {
			return nil, err
		}
		fact, err := parseFact(key, raw)
		if err != nil {
			return nil, fmt.Errorf("fact %q: %w", key, err)
		}
		d.facts[key] = fact
		d.revision = max(d.revision, fact.Revision) // hand-made files may have none
	}
	return d, nil
}

func parseFact(key string, raw json.RawMessage) (entry, error) {
	var fact factJSON
	if err := json.Unmarshal(raw, &fact); err != nil {
		return entry{}, err
	}
	if fact.Value == "" {
		return entry{}, errors.New("no value")
	}
	var line bytes.Buffer
	if err := json.Compact(&line, raw); err != nil {
		return entry{}, err
	}
	e := entry{Fact: Fact{key, fact.Value, fact.Revision, fact.UpdatedAt.UTC()}, json: line.Bytes()}
	if err := json.Unmarshal(raw, &e.other); err != nil {
		return entry{}, err
	}
	for _, known := range []string{"value", "revision", "updated_at"} {
		delete(e.other, known)
	}
	if len(e.other) == 0 {
		e.other = nil
	}
	return e, nil
}

// set writes one fact, or removes it if value is empty.
func (d *document) set(key, value string, now time.Time) {
	old, ok := d.facts[key]
	if !ok && value == "" {
		return
	}
	d.revision++
	d.updatedAt = now
	if value == "" {
		delete(d.facts, key)
		return
	}
	d.facts[key] = entry{Fact: Fact{key, value, d.revision, now}, other: old.other}
}

func (d *document) clone() *document {
	c := *d
	if c.facts = maps.Clone(d.facts); c.facts == nil {
		c.facts = make(map[string]entry)
	}
	return &c
}

// encode also fills in the facts' JSON; d must not be shared yet.
func (d *document) encode() ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\n  \"revision\": %d,\n  \"updated_at\": %q,\n  \"facts\": {", d.revision, d.updatedAt.Format(time.RFC3339Nano))
	for i, key := range slices.Sorted(maps.Keys(d.facts)) {
		e := d.facts[key]
		if e.json == nil {
			var err error
			if e.json, err = e.encode(); err != nil {
				return nil, fmt.Errorf("encode fact %q: %w", key, err)
			}
			d.facts[key] = e
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n    \"" + key + "\": ") // nothing in a key needs a backslash
		b.Write(e.json)
	}
	b.WriteString("\n  }")
	for _, name := range slices.Sorted(maps.Keys(d.other)) {
		quoted, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, ",\n  %s: %s", quoted, d.other[name])
	}
	b.WriteString("\n}\n")
	return b.Bytes(), nil
}

func (e entry) encode() ([]byte, error) {
	line, err := json.Marshal(factJSON{e.Value, e.Revision, e.UpdatedAt})
	if err != nil || e.other == nil {
		return line, err
	}
	fields := maps.Clone(e.other)
	if err := json.Unmarshal(line, &fields); err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}
