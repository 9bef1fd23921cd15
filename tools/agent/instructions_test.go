package agent_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/tools/agent"
)

func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Agents follow the AGENTS.md files up to the root of the repository, and know the skills of the
// workspace. A change takes effect at once, a new file after a restart, and nothing outside of
// the repository is read.
func TestInstructions(t *testing.T) {
	outside := t.TempDir()
	repository := filepath.Join(outside, "repository")
	skill := func(name string) string {
		return "---\r\nname: " + name + "\r\ndescription: >\r\n  What " + name + "\r\n  does.\r\n---\r\nSECRET BODY"
	}
	writeFiles(t, outside, map[string]string{
		"AGENTS.md": "OUTSIDE", "secret.md": "SECRET",
		"repository/.git/HEAD": "", "repository/AGENTS.md": "Be brief.\n", "repository/skills/up/SKILL.md": skill("up"),
		"repository/a/AGENTS.md":                           "\xff" + strings.Repeat("x", 40<<10),
		"repository/a/work/AGENTS.md":                      "Answer in Latin.",
		"repository/a/work/skills/pdf/SKILL.md":            skill("pdf"),
		"repository/a/work/.agents/skills/mail/SKILL.md":   skill("mail"),
		"repository/a/work/.claude/skills/broken/SKILL.md": "---\nname: [\n---\n",
		"repository/a/work/.claude/skills/plain/SKILL.md":  "No front matter.",
		"repository/a/work/.claude/skills/bomb/SKILL.md":   "---\n" + strings.Repeat("a: &a [*a,*a]\n", 9000),
		"repository/a/work/skills/file":                    "no directory",
	})
	work := filepath.Join(repository, "a", "work")
	for link, target := range map[string]string{"skills/link/SKILL.md": "../../../../../secret.md", "skills/dir": outside} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(work, link)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(work, link)); err != nil {
			t.Skip("this system has no links")
		}
	}
	in, err := agent.FindInstructions(work)
	if err != nil {
		t.Fatal(err)
	}
	read := func() agent.InstructionText {
		t.Helper()
		text, err := in.Read()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	text := read()
	want := []string{"AGENTS.md", "a/AGENTS.md", "a/work/AGENTS.md", "a/work/skills/pdf/SKILL.md", "a/work/.agents/skills/mail/SKILL.md"}
	ignored := []string{"a/work/.claude/skills/bomb/SKILL.md", "a/work/.claude/skills/broken/SKILL.md", "a/work/.claude/skills/plain/SKILL.md"}
	if !slices.Equal(text.Files, want) || !slices.Equal(text.Ignored, ignored) {
		t.Errorf("files %q, want %q; ignored %q, want %q", text.Files, want, text.Ignored, ignored)
	}
	for _, want := range []string{"# Instructions from AGENTS.md\n\nBe brief.", "[The file has 40961 bytes; only the first 32768 are shown here.]", "Answer in Latin.", "- pdf (skills/pdf/SKILL.md): What pdf does.", "- mail (.agents/skills/mail/SKILL.md): What mail does."} {
		if !strings.Contains(text.Text, want) {
			t.Errorf("the text has no %q", want)
		}
	}
	if strings.Contains(text.Text, "SECRET") || strings.Contains(text.Text, "OUTSIDE") || strings.Count(text.Text, "# Skills") != 1 {
		t.Errorf("the text is %s", text.Text)
	}

	writeFiles(t, work, map[string]string{"AGENTS.md": "Answer in Greek.", "skills/late/SKILL.md": skill("late")})
	if err := os.Remove(filepath.Join(repository, "AGENTS.md")); err != nil {
		t.Fatal(err)
	}
	if text := read().Text; !strings.Contains(text, "Greek") || strings.Contains(text, "Latin") || strings.Contains(text, "late") || strings.Contains(text, "Be brief") {
		t.Errorf("after a change, the text is %s", text)
	}
	if in, err = agent.FindInstructions(work); err != nil || !strings.Contains(read().Text, "- late (") {
		t.Errorf("after a restart, a new skill is unknown, %v", err)
	}
}

// Without files, there are no instructions. Without a repository, parents have none.
func TestNoInstructions(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"AGENTS.md": "OUTSIDE", "work/note.txt": "x"})
	in, err := agent.FindInstructions(filepath.Join(dir, "work"))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := in.Read(); err != nil || text.Text != "" || len(text.Files) > 0 {
		t.Errorf("%+v, %v", text, err)
	}
}
