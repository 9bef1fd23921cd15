package textscan

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzRunesLen: RunesLen agrees with decoding each rune.
func FuzzRunesLen(f *testing.F) {
	f.Add([]byte("é漢😀\xff\xf0\x9f\n"), int64(300))
	f.Add([]byte("漢"), int64(200))
	f.Add([]byte("\xf0\x9f\x98"), int64(64))
	f.Fuzz(func(t *testing.T, data []byte, n int64) {
		if len(data) == 0 || len(data) > 100 || n > 2000 {
			return
		}
		data = bytes.Repeat(data, 1+500/len(data))
		want := 0
		for i := n; i > 0 && want < len(data); i-- {
			_, size := utf8.DecodeRune(data[want:])
			want += size
		}
		if got := RunesLen(data, n); got != want {
			t.Fatalf("%d runes have %d bytes, want %d, in %q", n, got, want, data)
		}
	})
}

// FuzzCountRunes: CountRunes agrees with utf8.RuneCount at every alignment.
func FuzzCountRunes(f *testing.F) {
	for _, s := range []string{
		"\x7f\u0080\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff", // the first and the last of each length
		"\xc0\x80\xc1\xbf", "\xe0\x80\x80\xe0\x9f\xbf", "\xf0\x80\x80\x80\xf0\x8f\xbf\xbf", // longer than needed
		"\xed\xa0\x80\xed\xbf\xbf", // surrogates
		"\xf4\x90\x80\x80\xf5\x80\x80\x80\xf8\x88\x80\x80\x80\xff\xbf\xbf\xbf\xbf", // above U+10FFFF
	} {
		f.Add([]byte(s), uint8(0))
	}
	for _, whole := range []string{"é", "漢", "😀"} {
		for n := 1; n < len(whole); n++ { // truncated, at each alignment
			for at := range uint8(8) {
				f.Add([]byte(whole[:n]+"a"), at)
				f.Add([]byte(whole[:n]+whole), at)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, at uint8) {
		if len(data) == 0 || len(data) > 100 {
			return
		}
		data = append(bytes.Repeat([]byte("a"), int(at)), bytes.Repeat(data, 1+300/len(data))...)
		for len(data) > 200 {
			if got, want := CountRunes(data), int64(utf8.RuneCount(data)); got != want {
				t.Fatalf("%d runes instead of %d in %q", got, want, data)
			}
			data = data[:len(data)-1-len(data)/8]
		}
	})
}

// All pairs of first and second bytes with several continuations, at each alignment.
func TestCountRunesOfAllBytes(t *testing.T) {
	text := make([]byte, 64+8+4)
	n := 0
	for first := range 256 {
		for second := range 256 {
			for _, more := range []string{"aa", "\x80a", "a\xbf", "\xbf\x80", "\xe4\x80", "\x80\xe4"} {
				clear(text)
				at := n % (64 + 8)
				n++
				copy(text[at:], []byte{byte(first), byte(second), more[0], more[1]})
				if got, want := CountRunes(text), int64(utf8.RuneCount(text)); got != want {
					t.Fatalf("%d runes instead of %d in %q", got, want, text)
				}
			}
		}
	}
}

// A text may be split anywhere.
func TestCountRunesCuts(t *testing.T) {
	pieces := []string{strings.Repeat("a", 61), strings.Repeat("b", 64), "é", "日本語", "😀", "\xf0\x9f", "\x80\x80\x80\x80", "\xff", strings.Repeat("语", 500)}
	r := rand.New(rand.NewPCG(7, 7))
	for range 200 {
		var b strings.Builder
		for b.Len() < 6<<10 {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		if got, want := CountRunes([]byte(b.String())), int64(utf8.RuneCountInString(b.String())); got != want {
			t.Fatalf("%d runes instead of %d in %q", got, want, b.String())
		}
	}
}
