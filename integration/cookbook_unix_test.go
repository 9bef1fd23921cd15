//go:build unix

package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stevedore-bus/stevedore/integration/slow"
)

// The tutorial and the recipes of the cookbook work word for word: the test writes their files,
// runs their commands in order, and compares what they print.
func TestTutorial(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	followPage(t, string(text))
}

func TestCookbook(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	text, err := os.ReadFile("../docs/cookbook.md")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(text), "\n## ")
	start, recipes := parts[0], parts[1:]
	if len(recipes) < 10 {
		t.Errorf("%d recipes", len(recipes))
	}
	for _, recipe := range recipes {
		title, _, _ := strings.Cut(recipe, "\n")
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			followPage(t, start+"\n"+recipe)
		})
	}
}

// codeBlock matches a block: its language, the name of its file or "", and its text.
var codeBlock = regexp.MustCompile("(?ms)^```(\\w+) ?([\\w.]*)\n(.*?)^```")

// followPage runs the blocks of a page in an empty directory: "sh" are commands, "text" is what
// the commands before it print, and others are files. programs are directories of programs, beside stevedore.
func followPage(t *testing.T, page string, programs ...string) {
	t.Helper()
	if strings.Contains(page, "python3 ") {
		python(t)
	}
	dir := t.TempDir()
	var script strings.Builder
	script.WriteString("set -eu\n")
	var wants []string // of each block of commands
	for _, block := range codeBlock.FindAllStringSubmatch(page, -1) {
		language, name, text := block[1], block[2], block[3]
		switch {
		case name != "":
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		case language == "sh":
			fmt.Fprintf(&script, "printf '\\n== block %d\\n'\n%s", len(wants), text)
			wants = append(wants, "")
		case language == "text":
			wants[len(wants)-1] = text
		default:
			t.Fatalf("a block in %q is neither a file nor commands", language)
		}
	}
	for _, helper := range []string{"stevedore_bus.py", "tinynats.py"} { // what a reader copies
		data, err := os.ReadFile(filepath.Join("python", helper))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, helper), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	output, err := os.Create(filepath.Join(t.TempDir(), "output")) // a pipe would stay open in the background
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script.String())
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	home := t.TempDir()
	cmd.Env = []string{
		"PATH=" + strings.Join(append(programs, filepath.Dir(workerProgram), os.Getenv("PATH")), ":"), "HOME=" + home, "XDG_DATA_HOME=" + filepath.Join(home, "data"), "TMPDIR=" + home,
		"STEVEDORE_CONSOLE=off", "STEVEDORE_NO_SYNC=true",
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }) // with what it left in the background
	err = cmd.Wait()
	printed, readErr := os.ReadFile(output.Name())
	t.Logf("printed:\n%s", printed)
	if err != nil || readErr != nil {
		t.Fatalf("the commands failed: %v, %v", err, readErr)
	}
	blocks := regexp.MustCompile(`(?m)^== block \d+\n`).Split(string(printed), -1)[1:]
	for i, want := range wants {
		if !printedAs(want).MatchString(blocks[i]) {
			t.Errorf("block %d printed\n%s\nwant\n%s", i, blocks[i], want)
		}
	}
}

// printedAs returns an expression for the lines of a text in order. In them, "..." stands for
// anything.
func printedAs(text string) *regexp.Regexp {
	var expression strings.Builder
	expression.WriteString("(?s)")
	for line := range strings.Lines(text) {
		line = strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSuffix(line, "\n")), `\.\.\.`, `[^\n]*`)
		expression.WriteString(`(?:^|\n)` + line + `[^\n]*.*`)
	}
	return regexp.MustCompile(expression.String())
}
