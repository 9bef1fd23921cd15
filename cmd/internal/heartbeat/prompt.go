package heartbeat

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

// File is the name of the prompt in the workspace.
const File = "HEARTBEAT.md"

// Template is the initial HEARTBEAT.md. It contains no instructions, so nothing
// runs.
const Template = `# Heartbeat

<!--
Write below what the agent should check regularly. While this file contains only
headings and comments, nothing runs and nothing is spent. An example:

- Check inbox/ and tell me about letters that need an answer this week.
- If there is nothing to report, answer only HEARTBEAT_OK.
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

// maxPrompt bounds the prompt, in bytes, well below the maximum of a message.
const maxPrompt = 64 << 10

var comments = regexp.MustCompile(`(?s)<!--.*?(-->|$)`)

// Instructions returns the text of a HEARTBEAT.md without comments. If it contains
// only headings and empty items, as the template does, Instructions returns "".
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

// readInstructions reads the instructions of the workspace. A missing file contains
// none.
func readInstructions(workspace *os.Root) (string, error) {
	info, err := workspace.Stat(File)
	var data []byte
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
	case !info.Mode().IsRegular():
		err = errors.New("it is not a regular file")
	case info.Size() > maxPrompt:
		err = fmt.Errorf("it is longer than %d bytes", maxPrompt)
	default:
		if data, err = workspace.ReadFile(File); err == nil && !utf8.Valid(data) {
			err = errors.New("it is not UTF-8")
		}
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", File, err)
	}
	return Instructions(string(data)), nil
}
