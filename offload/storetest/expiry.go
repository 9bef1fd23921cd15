package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/offload"
)

func testExpiry(t *testing.T, h Harness) {
	var c Clock
	s := h.Open(t, offload.StoreConfig{TTL: time.Hour, Now: c.Now})
	out := Put(t, s, NewRecord("s", "a"), []byte("text"))
	c.Advance(61 * time.Minute)
	check := func(when string, want error) {
		t.Helper()
		if _, err := s.Get(t.Context(), "s", "a"); !errors.Is(err, want) {
			t.Errorf("%s: get: %v, want %v", when, err, want)
		}
		for r, err := range s.List(t.Context(), "s") {
			t.Errorf("%s: list: %v, %v, want nothing", when, r.ID, err)
		}
	}
	check("expired", offload.ErrExpired)
	report, err := s.Sweep(t.Context(), 0)
	if err != nil || report.Records != 1 || report.Blobs != 1 || report.Bytes == 0 {
		t.Errorf("sweep: %+v, %v; want one record and one blob", report, err)
	}
	check("swept", offload.ErrExpired)
	if _, err := s.Open(t.Context(), out); !errors.Is(err, offload.ErrExpired) {
		t.Errorf("open: %v, want ErrExpired", err)
	}
	h.checkStored(t, 0, 0, "after the sweep")
	if report, err = s.Sweep(t.Context(), 0); err != nil || report != (offload.SweepReport{}) {
		t.Errorf("sweep again: %+v, %v; want nothing", report, err)
	}
	c.Advance(time.Hour)
	if _, err = s.Sweep(t.Context(), 0); err != nil {
		t.Error(err)
	}
	check("forgotten", offload.ErrNotFound)
}

func testRefreshOnRead(t *testing.T, h Harness) {
	var c Clock
	s := h.Open(t, offload.StoreConfig{TTL: time.Hour, Now: c.Now})
	out := Put(t, s, NewRecord("s", "a"), []byte("text"))
	for range 4 {
		c.Advance(40 * time.Minute)
		got, err := s.Get(t.Context(), "s", "a")
		if err != nil {
			t.Fatalf("it expired although it was read every 40 minutes: %v", err)
		}
		if !got.ExpiresAt.After(out.ExpiresAt) {
			t.Errorf("expires at %v, before %v", got.ExpiresAt, out.ExpiresAt)
		}
		out = got
	}
	if report, err := s.Sweep(t.Context(), 0); err != nil || report != (offload.SweepReport{}) {
		t.Errorf("sweep: %+v, %v; want nothing", report, err)
	}
	CheckContent(t, s, out, []byte("text"))
	c.Advance(40 * time.Minute)
	again := Put(t, s, NewRecord("s", "a"), []byte("text"))
	if !again.ExpiresAt.After(out.ExpiresAt) {
		t.Error("putting again did not extend the expiry")
	}
}

func testPutOverExpired(t *testing.T, h Harness) {
	var c Clock
	s := h.Open(t, offload.StoreConfig{TTL: time.Hour, Now: c.Now})
	for _, sweep := range []bool{false, true} {
		old := Put(t, s, NewRecord("s", fmt.Sprint("a", sweep)), []byte("old"))
		c.Advance(61 * time.Minute)
		if sweep {
			if _, err := s.Sweep(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		}
		out := Put(t, s, NewRecord("s", old.ID), []byte("new"))
		CheckContent(t, s, out, []byte("new"))
		if got, err := s.Get(t.Context(), "s", old.ID); err != nil || got.Digest != out.Digest {
			t.Errorf("get: %+v, %v", got, err)
		}
		if got, err := ReadAll(t.Context(), s, old); err == nil && string(got) != "old" {
			t.Errorf("the old record opens %q", got)
		}
	}
}

func testList(t *testing.T, h Harness) {
	var c Clock
	s := h.Open(t, offload.StoreConfig{Now: c.Now})
	var want, all []string
	for i := range 12 {
		r := Put(t, s, NewRecord(fmt.Sprint("s", i%2), fmt.Sprint("id", 20-i)), Text(i, 11))
		if i%2 == 0 {
			want = append(want, r.ID)
		}
		all = append(all, r.ID)
		c.Advance(time.Second)
	}
	c.Advance(2 * time.Hour)
	if _, err := s.Get(t.Context(), "s0", "id20"); err != nil { // refreshes the expiry
		t.Fatal(err)
	}
	list := func(session string) (ids []string) {
		for r, err := range s.List(t.Context(), session) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, r.ID)
		}
		return ids
	}
	if got := list("s0"); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("list %v, want %v", got, want)
	}
	if got := list(""); fmt.Sprint(got) != fmt.Sprint(all) {
		t.Errorf("list of all %v, want %v", got, all)
	}
	if got := list("nobody"); len(got) != 0 {
		t.Errorf("list of an unknown session: %v", got)
	}
	for range s.List(t.Context(), "") {
		break
	}
}

func testDelete(t *testing.T, h Harness) {
	s := h.Open(t, offload.StoreConfig{})
	Put(t, s, NewRecord("s", "a"), []byte("text"))
	if err := s.Delete(t.Context(), "s", "a"); err != nil {
		t.Fatal(err)
	}
	checkGet(t, s, "s", "a", offload.ErrNotFound)
	for r, err := range s.List(t.Context(), "s") {
		t.Errorf("list: %v, %v", r.ID, err)
	}
	if err := s.Delete(t.Context(), "s", "a"); !errors.Is(err, offload.ErrNotFound) {
		t.Errorf("delete again: %v, want ErrNotFound", err)
	}
	out := Put(t, s, NewRecord("s", "a"), []byte("another text"))
	CheckContent(t, s, out, []byte("another text"))
	report, err := s.Sweep(t.Context(), 0)
	if err != nil || report.Blobs != 1 {
		t.Errorf("sweep: %+v, %v; want the first text gone", report, err)
	}
	CheckContent(t, s, out, []byte("another text"))
}
