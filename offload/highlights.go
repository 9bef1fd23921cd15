package offload

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

const (
	highlightBytes = 4 << 20 // of a text whose lines are read for its preview
	highlightLines = 4       // that are shown
	highlightRunes = 110     // of such a line
	logLines       = 40      // that decide whether a text is a log
)

// failure matches a line that says what failed in a test run or build.
var failure = lazyregexp.New(`^\s*(?:--- FAIL|FAIL(?:ED)?\b|not ok\b|[✗✕✖] |error(?:\[\w+\])?:|npm ERR!)|^\S+:\d+(?::\d+)?:(?: fatal)? error|\berror [A-Z]+\d+:`)

// highlights returns how many lines of a log have each level and the first errors, or the first lines
// of a test run or build that say what failed, or "".
func highlights(src io.ReaderAt, size int64) (string, error) {
	text, err := readRange(src, 0, min(size, highlightBytes))
	if err != nil {
		return "", err
	}
	text = []byte(stripANSI(string(text)))
	levels, order, shown, failed := map[string]int{}, []string(nil), "", 0
	n, isLog := 0, looksLikeLog(text)
	for line := range bytes.Lines(text) {
		n++
		level := ""
		if isLog {
			if level = levelOf(line); level != "" && levels[level] == 0 {
				order = append(order, level)
			}
			levels[level]++
		}
		if isLog && !severe[level] || !isLog && !SaysFailure(line) {
			continue
		}
		if failed++; failed <= highlightLines {
			shown += fmt.Sprintf("%d: %s\n", n, tools.Excerpt(strings.TrimSpace(string(line)), highlightRunes))
		}
	}
	part := ""
	if size > highlightBytes {
		part = fmt.Sprintf(" (the first %d MiB)", highlightBytes>>20)
	}
	switch {
	case isLog:
		for i, level := range order {
			order[i] = fmt.Sprintf("%d %s", levels[level], level)
		}
		return fmt.Sprintf("a log; its lines%s by level: %s\n%s", part, strings.Join(order, ", "), shown), nil
	case failed > 0:
		return fmt.Sprintf("lines%s that say what failed: %d; the first of them:\n%s", part, failed, shown), nil
	}
	return "", nil
}

// looksLikeLog reports whether most of the first lines of a text have a level.
func looksLikeLog(text []byte) bool {
	n, leveled := 0, 0
	for line := range bytes.Lines(text) {
		if levelOf(line) != "" {
			leveled++
		}
		if n++; n == logLines {
			break
		}
	}
	return n >= 10 && leveled*5 >= n*3
}

// levelNames are the levels of logs, and severe those of errors.
var (
	levelNames = map[string]string{"TRACE": "TRACE", "DEBUG": "DEBUG", "INFO": "INFO", "NOTICE": "NOTICE", "WARN": "WARN", "WARNING": "WARNING",
		"ERROR": "ERROR", "FATAL": "FATAL", "CRITICAL": "CRITICAL", "CRIT": "CRIT", "PANIC": "PANIC"}
	severe = map[string]bool{"ERROR": true, "FATAL": true, "CRITICAL": true, "CRIT": true, "PANIC": true}
)

// levelOf returns the level of a line of a log, or "": the first word in capitals, in brackets or behind
// "level=" that is one. It is called for each line, so it is no regular expression.
func levelOf(line []byte) string {
	line = line[:min(len(line), 120)]
	letter := func(i int) bool { return i < len(line) && 'a' <= line[i]|0x20 && line[i]|0x20 <= 'z' }
	for i := 0; i < len(line); i++ {
		start := i
		for letter(i) {
			i++
		}
		word := line[start:i]
		before, after := byte(' '), byte(' ')
		if start > 0 {
			before = line[start-1]
		}
		if i < len(line) {
			after = line[i]
		}
		switch {
		case len(word) < 4 || len(word) > 8 || before == '_' || after == '_':
		case word[0]&0x20 == 0: // in capitals
			if level := levelNames[string(word)]; level != "" {
				return level
			}
		}
		if before == '[' && after == ']' || before == '=' && start >= 6 && string(line[start-6:start]) == "level=" {
			if level := levelNames[strings.ToUpper(string(word))]; level != "" {
				return level
			}
		}
	}
	return ""
}

// SaysFailure reports whether a line of a test run or build says what failed. The parts are in all lines that failure
// matches, and are found faster.
func SaysFailure(line []byte) bool {
	for _, part := range []string{"FAIL", "rror", "ERR!", "not ok", "\xe2\x9c"} {
		if bytes.Contains(line, []byte(part)) {
			return failure.Match(line[:min(len(line), 400)])
		}
	}
	return false
}
