package memory

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// Shared is the owner of the notes that all users see.
const Shared = "shared"

const (
	keyPrefix = "memory"
	// version is the format of a stored note.
	version = 1
	// maxText bounds a note, in bytes; maxNotes bounds the notes of an owner.
	maxText  = 2000
	maxNotes = 500
)

// Note is something that an agent was told to remember.
type Note struct {
	// ID is unique among all notes.
	ID    string `json:"id"`
	Owner string `json:"owner"`
	Text  string `json:"text"`
	// Session is where the note was made; empty if an operator wrote it.
	Session string    `json:"session,omitempty"`
	At      time.Time `json:"at"`
	// Unreadable is true if this version of the program does not know the format of the note. Its
	// text says so then.
	Unreadable bool `json:"unreadable,omitempty"`
}

// stored is a note in the bucket.
type stored struct {
	Version int       `json:"v"`
	Text    string    `json:"text"`
	Session string    `json:"session,omitempty"`
	At      time.Time `json:"at"`
}

// Store keeps notes on a bus. It is safe for concurrent use, also by several processes.
type Store struct{ bus *bus.Bus }

// New returns the notes of a bus.
func New(b *bus.Bus) *Store { return &Store{b} }

// Add stores a note and returns its id, which follows from seed: adding a note again changes
// nothing. An owner is a token. The error has a code if the note cannot be stored.
func (s *Store) Add(ctx context.Context, owner, session, seed, text string) (id string, err error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return "", tools.Errorf(tools.CodeInvalidArguments, "the note is empty")
	case len(text) > maxText:
		return "", tools.Errorf(tools.CodeInvalidArguments, "the note has %d bytes; at most %d are allowed: put long texts into a file, "+
			"and note its name", len(text), maxText)
	}
	digest := sha256.Sum256([]byte(owner + "\x00" + seed))
	id = strings.ToLower(base32.HexEncoding.EncodeToString(digest[:5]))
	notes, err := s.List(ctx, owner)
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(notes, func(n Note) bool { return n.ID == id }) {
		return id, nil
	}
	if len(notes) >= maxNotes {
		return "", tools.Errorf(tools.CodeInvalidArguments, "there are %d notes already, which is the most; forget some that are no "+
			"longer true, the oldest is %s", len(notes), notes[len(notes)-1].ID)
	}
	body, err := json.Marshal(stored{Version: version, Text: strings.ToValidUTF8(text, "\uFFFD"), Session: session, At: time.Now().UTC()})
	if err != nil {
		return "", err
	}
	kv, err := s.bus.Bucket(ctx, bus.StateBucket)
	if err == nil {
		_, err = kv.Create(ctx, key(owner, id), body)
	}
	if err != nil && !errors.Is(err, jetstream.ErrKeyExists) {
		return "", fmt.Errorf("store a note: %w", err)
	}
	return id, nil
}

func key(owner, id string) string { return keyPrefix + "." + owner + "." + id }

// List returns the notes of an owner, or of all owners ("*"), newest first.
func (s *Store) List(ctx context.Context, owner string) (notes []Note, err error) {
	kv, err := s.bus.Bucket(ctx, bus.StateBucket)
	if err != nil {
		return nil, fmt.Errorf("read the notes: %w", err)
	}
	watcher, err := kv.Watch(ctx, key(owner, "*"), jetstream.IgnoreDeletes())
	if err != nil {
		return nil, fmt.Errorf("read the notes: %w", err)
	}
	defer func() { err = errors.Join(err, watcher.Stop()) }()
	notes = []Note{}
	for {
		select {
		case entry, ok := <-watcher.Updates():
			if entry == nil { // that were all
				slices.SortStableFunc(notes, func(a, b Note) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.ID, b.ID)) })
				if !ok {
					return nil, errors.New("read the notes: the server ended the list")
				}
				return notes, nil
			}
			notes = append(notes, decode(entry))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func decode(entry jetstream.KeyValueEntry) Note {
	name := strings.Split(entry.Key(), ".")
	var n stored
	if err := json.Unmarshal(entry.Value(), &n); err != nil || n.Version != version {
		text := fmt.Sprintf("(This version of the program cannot read this note, %s. Use the version that wrote it.)", entry.Key())
		return Note{ID: name[2], Owner: name[1], Text: text, At: entry.Created(), Unreadable: true}
	}
	return Note{ID: name[2], Owner: name[1], Text: n.Text, Session: n.Session, At: n.At}
}

// Visible returns the notes that an owner sees: its own and the shared ones, newest first.
func (s *Store) Visible(ctx context.Context, owner string) ([]Note, error) {
	own, err := s.List(ctx, owner)
	if err != nil || owner == Shared {
		return own, err
	}
	shared, err := s.List(ctx, Shared)
	return append(own, shared...), err
}

// search returns the notes with any of the words of query, those with the most of them first, and
// those that cannot be read. Without words, it returns all notes.
func search(notes []Note, query string) []Note {
	words := strings.Fields(strings.ToLower(query))
	if len(words) == 0 {
		return notes
	}
	hits := map[string]int{}
	found := []Note{}
	for _, n := range notes {
		text := strings.ToLower(n.Text)
		if n.Unreadable {
			text = "" // it is not that of the note
		}
		for _, word := range words {
			if strings.Contains(text, word) {
				hits[n.ID]++
			}
		}
		if hits[n.ID] > 0 || n.Unreadable {
			found = append(found, n)
		}
	}
	slices.SortStableFunc(found, func(a, b Note) int { return cmp.Compare(hits[b.ID], hits[a.ID]) })
	return found
}

// Remove deletes a note of an owner. Its error has the code tools.CodeNotFound if there is no
// such note.
func (s *Store) Remove(ctx context.Context, owner, id string) error {
	notes, err := s.List(ctx, owner)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(notes, func(n Note) bool { return n.ID == id })
	if i < 0 {
		return tools.Errorf(tools.CodeNotFound, "there is no note %q that can be removed", tools.Excerpt(tools.OneLine(id), 80))
	}
	kv, err := s.bus.Bucket(ctx, bus.StateBucket)
	if err == nil {
		err = kv.Delete(ctx, key(notes[i].Owner, id))
	}
	if err != nil {
		return fmt.Errorf("remove the note %s: %w", id, err)
	}
	return nil
}
