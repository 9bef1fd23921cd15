package heartbeat

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

// File is the name of the prompt in the workspace.
const File = "HEARTBEAT.md"

// Template is a HEARTBEAT.md to begin with. As it is, nothing runs.
const Template = `# Heartbeat

<!--
Write below, in plain words, what should be looked at now and then. As long as
there is nothing but headings and comments, nothing runs and nothing is spent.
An example:

- Look into inbox/ and tell me about letters that need an answer this week.
- If there is nothing to tell, answer HEARTBEAT_OK and nothing else.
-->

## Tasks

-
`

// Init writes the template to a workspace that has no HEARTBEAT.md, and returns
// the file's path.
func Init(workspace string) (path string, created bool, err error) {
	path = filepath.Join(workspace, File)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return path, false, nil
	}
	if err != nil {
		return path, false, fmt.Errorf("write %s: %w", File, err)
	}
	_, err = file.WriteString(Template)
	if err := errors.Join(err, file.Close()); err != nil {
		return path, false, fmt.Errorf("write %s: %w", File, err)
	}
	return path, true, nil
}

// maxPrompt keeps the prompt well below what a message may hold.
const maxPrompt = 64 << 10

var comments = regexp.MustCompile(`(?s)<!--.*?(-->|$)`)

// Instructions returns the text of a HEARTBEAT.md without its comments, or
// nothing if it asks for nothing: if there are only headings and empty items,
// as in the template.
func Instructions(text string) string {
	text = strings.TrimPrefix(text, "\ufeff")
	text = strings.TrimSpace(comments.ReplaceAllString(text, ""))
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		if strings.Trim(line, "-*+[] \t") != "" {
			return text
		}
	}
	return ""
}

// readInstructions reads the workspace's prompt. A missing file asks for
// nothing.
func readInstructions(workspace *os.Root) (string, error) {
	info, err := workspace.Stat(File)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", File, err)
	}
	file, err := workspace.Open(File)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", File, err)
	}
	defer func() { _ = file.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(file, maxPrompt+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read %s: %w", File, err)
	case len(data) > maxPrompt:
		return "", fmt.Errorf("read %s: it is longer than %d bytes", File, maxPrompt)
	case !utf8.Valid(data):
		return "", fmt.Errorf("read %s: it is not UTF-8", File)
	}
	return Instructions(string(data)), nil
}
