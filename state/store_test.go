package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestFileStore(t *testing.T) {
	testStore(t, func(t *testing.T) func() Store {
		path := filepath.Join(t.TempDir(), "state.json")
		return func() Store { return openFile(t, path) }
	})
}

func openFile(t *testing.T, path string) *File {
	t.Helper()
	f, err := OpenFile(path, FileConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// testStore is what every Store does. create makes an empty store and returns
// what opens it: each call is as another process on the same facts.
func testStore(t *testing.T, create func(t *testing.T) (open func() Store)) {
	t.Run("absent", func(t *testing.T) {
		s := create(t)()
		if got := get(t, s, "none"); got != (Fact{Key: "none"}) {
			t.Errorf("absent fact: got %+v, want only the key", got)
		}
		if facts, err := s.List(t.Context(), ""); err != nil || len(facts) != 0 {
			t.Errorf("list of nothing: got %v, %v", facts, err)
		}
		set(t, s, "none", "") // removing what is not there
	})

	t.Run("written", func(t *testing.T) {
		open := create(t)
		s := open()
		other := open() // opened before the write
		start := time.Now().Add(-time.Second)
		set(t, s, "a.b", "telegram:1 \x00\"\n<é>")
		for _, s := range []Store{s, other, open()} {
			got := get(t, s, "a.b")
			if got.Value != "telegram:1 \x00\"\n<é>" || got.Revision == 0 || got.Key != "a.b" {
				t.Errorf("got %+v", got)
			}
			if got.UpdatedAt.Before(start) || got.UpdatedAt.After(time.Now().Add(time.Second)) || got.UpdatedAt.Location() != time.UTC {
				t.Errorf("updated at %v, want now in UTC", got.UpdatedAt)
			}
		}
	})

	t.Run("revisions grow, also over a removal", func(t *testing.T) {
		s := create(t)()
		last := uint64(0)
		for i := range 5 {
			set(t, s, "k", strconv.Itoa(i))
			got := get(t, s, "k")
			if got.Revision <= last {
				t.Errorf("write %d: revision %d after %d", i, got.Revision, last)
			}
			last = got.Revision
			set(t, s, "k", "")
			if got := get(t, s, "k"); got.Revision != 0 || got.Value != "" || !got.UpdatedAt.IsZero() {
				t.Errorf("removed fact: got %+v", got)
			}
		}
	})

	t.Run("update", func(t *testing.T) {
		s := create(t)()
		var seen []Fact
		add := func(old Fact) (string, error) {
			seen = append(seen, old)
			return old.Value + "x", nil
		}
		for range 3 {
			if err := s.Update(t.Context(), "k", add); err != nil {
				t.Fatal(err)
			}
		}
		if got := get(t, s, "k"); got.Value != "xxx" || len(seen) != 3 || seen[0] != (Fact{Key: "k"}) || seen[2].Value != "xx" {
			t.Errorf("got %+v after %+v", got, seen)
		}
		before := get(t, s, "k")
		refusal := errors.New("no")
		if err := s.Update(t.Context(), "k", func(Fact) (string, error) { return "y", refusal }); err != refusal {
			t.Errorf("refused update: got %v, want the error of change", err)
		}
		if got := get(t, s, "k"); got != before {
			t.Errorf("got %+v, want it untouched as %+v", got, before)
		}
		if err := s.Update(t.Context(), "k", func(old Fact) (string, error) { return old.Value, nil }); err != nil {
			t.Errorf("update to the same: %v", err)
		}
		if err := s.Update(t.Context(), "k", func(Fact) (string, error) { return "", nil }); err != nil {
			t.Fatal(err)
		}
		if got := get(t, s, "k"); got != (Fact{Key: "k"}) {
			t.Errorf("updated to nothing: got %+v", got)
		}
	})

	t.Run("list", func(t *testing.T) {
		s := create(t)()
		err := s.Set(t.Context(), map[string]string{"p": "0", "p.b": "2", "p.a": "1", "pq.a": "3", "p.a.z": "4", "gone": "5"})
		if err != nil {
			t.Fatal(err)
		}
		set(t, s, "gone", "")
		for prefix, want := range map[string]string{
			"p": "p.a=1 p.a.z=4 p.b=2", "": "p=0 p.a=1 p.a.z=4 p.b=2 pq.a=3", "p.a": "p.a.z=4", "none": "",
		} {
			facts, err := s.List(t.Context(), prefix)
			var got []string
			for _, f := range facts {
				got = append(got, f.Key+"="+f.Value)
				if f != get(t, s, f.Key) {
					t.Errorf("listed %+v, got %+v", f, get(t, s, f.Key))
				}
			}
			if strings.Join(got, " ") != want || err != nil {
				t.Errorf("list %q: got %q, %v, want %q", prefix, got, err, want)
			}
		}
	})

	t.Run("two writers lose nothing", func(t *testing.T) {
		open := create(t)
		const writers, each = 8, 20
		var wg sync.WaitGroup
		for w := range writers {
			s := open()
			wg.Go(func() {
				for i := range each {
					err := errors.Join(
						s.Set(t.Context(), map[string]string{fmt.Sprintf("own.%d", w): strconv.Itoa(i + 1)}),
						s.Update(t.Context(), "count", func(old Fact) (string, error) {
							n, _ := strconv.Atoi(old.Value)
							return strconv.Itoa(n + 1), nil
						}))
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		s := open()
		if got, want := get(t, s, "count").Value, strconv.Itoa(writers*each); got != want {
			t.Errorf("count: got %s, want %s", got, want)
		}
		for w := range writers {
			if got := get(t, s, fmt.Sprintf("own.%d", w)).Value; got != strconv.Itoa(each) {
				t.Errorf("writer %d: got %q, want its last value", w, got)
			}
		}
	})

	t.Run("bad keys and values are refused", func(t *testing.T) {
		s := create(t)()
		long := strings.Repeat("k", MaxKeyLen+1)
		for _, key := range []string{"", ".", "a.", ".a", "a..b", "a b", "*", "a.>", "a/b", "é", "a\n", long} {
			_, err := s.Get(t.Context(), key)
			if err == nil || s.Set(t.Context(), map[string]string{key: "v"}) == nil ||
				s.Update(t.Context(), key, func(Fact) (string, error) { return "v", nil }) == nil {
				t.Errorf("key %q was taken", key)
			}
		}
		for _, value := range []string{strings.Repeat("v", MaxValueLen+1), "\xff"} {
			if s.Set(t.Context(), map[string]string{"ok": "v", "k": value}) == nil ||
				s.Update(t.Context(), "k", func(Fact) (string, error) { return value, nil }) == nil {
				t.Errorf("value %.10q was taken", value)
			}
		}
		if facts, _ := s.List(t.Context(), ""); len(facts) != 0 {
			t.Errorf("refused writes left %+v", facts)
		}
		set(t, s, long[1:], strings.Repeat("v", MaxValueLen))
	})

	t.Run("ended context", func(t *testing.T) {
		s := create(t)()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := s.Set(ctx, map[string]string{"k": "v"})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("set: got %v", err)
		}
		err = s.Update(ctx, "k", func(Fact) (string, error) { return "v", nil })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("update: got %v", err)
		}
		if got := get(t, s, "k"); got.Value != "" {
			t.Errorf("got %+v, want nothing written", got)
		}
	})

	t.Run("last channel", func(t *testing.T) { testLastChannel(t, create(t)) })
}

func testLastChannel(t *testing.T, open func() Store) {
	s := open()
	ctx := t.Context()
	record := func(session, name, chat string) {
		t.Helper()
		if err := SetLastChannel(ctx, s, session, Channel{Name: name, ChatID: chat}); err != nil {
			t.Fatal(err)
		}
	}
	record("s1", "telegram", "-100:7")
	record("s2", "console", "")
	record("", "mail", "a@b")
	for session, want := range map[string]Channel{
		"s1": {Name: "telegram", ChatID: "-100:7"}, "s2": {Name: "console"}, "": {Name: "mail", ChatID: "a@b"}, "s3": {},
	} {
		got, err := LastChannel(ctx, open(), session)
		if at := got.At; at.IsZero() != want.IsZero() {
			t.Errorf("session %q: recorded at %v", session, at)
		}
		got.At = time.Time{}
		if got != want || err != nil {
			t.Errorf("session %q: got %+v, %v, want %+v", session, got, err, want)
		}
	}
	for _, session := range []string{"a.b", "*", "a b", strings.Repeat("s", 300)} {
		if SetLastChannel(ctx, s, session, Channel{Name: "console"}) == nil {
			t.Errorf("session %q was taken", session)
		}
		if _, err := LastChannel(ctx, s, session); err == nil {
			t.Errorf("session %q was read", session)
		}
	}
	for _, name := range []string{"", "tele:gram"} {
		if SetLastChannel(ctx, s, "s1", Channel{Name: name}) == nil {
			t.Errorf("channel %q was taken", name)
		}
	}
}

func get(t *testing.T, s Store, key string) Fact {
	t.Helper()
	fact, err := s.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return fact
}

func set(t *testing.T, s Store, key, value string) {
	t.Helper()
	if err := s.Set(t.Context(), map[string]string{key: value}); err != nil {
		t.Fatal(err)
	}
}

func checkFile(t *testing.T, path, content string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if string(got) != content || err != nil {
		t.Errorf("%s: got %q, %v, want %q", filepath.Base(path), got, err, content)
	}
	if info, err := os.Stat(path); err == nil && info.Mode() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("%s: mode %v, want 0600", filepath.Base(path), info.Mode())
	}
}

func checkNoTemps(t *testing.T, dir string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, ".*"))
	must(t, err)
	if len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
