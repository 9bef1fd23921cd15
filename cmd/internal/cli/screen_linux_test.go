package cli

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// screen interprets what the editor writes. Its first line is top.
type screen struct {
	lines     map[int][]rune
	x, y, top int
	written   string
	rest      string // the start of a sequence
}

// await reads the output of the program until ok.
func (s *screen) await(t *testing.T, p typist, ok func() bool) {
	t.Helper()
	limit := time.After(time.Minute)
	for !ok() {
		select {
		case text := <-p.output:
			s.written += text
			s.write(t, s.rest+text)
		case <-limit:
			t.Fatalf("the screen shows %q after %q", s.text(), s.written)
		}
	}
}

// text returns the lines from top on, without trailing space.
func (s *screen) text() string {
	var lines []string
	for y := s.top; y <= s.top+10; y++ {
		lines = append(lines, strings.TrimRight(strings.ReplaceAll(string(s.lines[y]), "\x00", ""), " "))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n ")
}

var sequence = regexp.MustCompile(`^\x1b\[(\??)(\d*)([a-zA-Z])`)

func (s *screen) write(t *testing.T, text string) {
	t.Helper()
	for s.rest = ""; text != ""; {
		if text[0] == keyEscape {
			m := sequence.FindStringSubmatch(text)
			if m == nil {
				s.rest = text
				return
			}
			text = text[len(m[0]):]
			n := 1
			if m[2] != "" {
				n, _ = strconv.Atoi(m[2])
			}
			switch m[1] + m[3] {
			case "A":
				s.y -= n
			case "B":
				s.y += n
			case "C":
				s.x += n
			case "D":
				s.x = max(s.x-n, 0)
			case "K":
				s.lines[s.y] = s.lines[s.y][:min(s.x, len(s.lines[s.y]))]
			case "?h", "?l":
			default:
				t.Fatalf("the sequence %q", m[0])
			}
			continue
		}
		r, n := utf8.DecodeRuneInString(text)
		if r == utf8.RuneError {
			s.rest = text
			return
		}
		text = text[n:]
		switch r {
		case '\r':
			s.x = 0
		case '\n':
			s.y++
		default:
			line := s.lines[s.y]
			for len(line) <= s.x+1 {
				line = append(line, ' ')
			}
			line[s.x] = r
			if s.x++; isWide(r) {
				line[s.x] = 0
				s.x++
			}
			s.lines[s.y] = line
		}
	}
}
