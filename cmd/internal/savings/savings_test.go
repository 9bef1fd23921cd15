package savings

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if data := os.Getenv("SAVINGS_DATA"); data != "" { // a process that adds until it is killed
		for range 200 {
			if err := Add(data, Line{Host: "codex", Tool: strings.Repeat("t", 60), Whole: 1, Shown: 1}); err != nil {
				panic(err)
			}
		}
		_, _ = os.Stdout.WriteString("added\n")
		select {}
	}
	os.Exit(m.Run())
}

func add(t *testing.T, data string, lines ...Line) {
	t.Helper()
	for _, l := range lines {
		if err := Add(data, l); err != nil {
			t.Fatal(err)
		}
	}
}

// Without a data directory, nothing is written to the current one.
func TestNoDataDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := Add("", Line{Whole: 1}); err == nil {
		t.Error("added")
	}
	if found, err := os.ReadDir("."); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
}

func TestSums(t *testing.T) {
	data := t.TempDir()
	add(t, data,
		Line{Host: "codex-mcp-client", Tool: "get", Whole: 500, Shown: 500},
		Line{Host: "codex-mcp-client", Tool: "get", Whole: 90_000, Shown: 700},
		Line{Host: "codex-mcp-client", Tool: "get", Read: 2_000},
		Line{Host: "github-copilot-developer", Tool: "get", Whole: 90_000, Shown: 700},
		Line{Host: "claude-code", Tool: Shell, Whole: 120_000, Shown: 300}, // which shows 2,200 alone
		Line{Host: "claude-code", Tool: "get", Whole: 2_000_000, Shown: 700},
		Line{Host: "claude-code", Tool: "get", Read: 5_000},
		Line{Host: "pioneer", Tool: Shell, Whole: 70_000, Shown: 300}, // which is not Pi
		Line{Whole: 5, Shown: 5})
	want := []Sum{
		{"claude-code", "get", 1, 2_000_000, 1_300, 700, 5_000, -4_400},
		{"claude-code", Shell, 1, 120_000, 2_200, 300, 0, 1_900},
		{"codex", "get", 2, 90_500, 10_500, 1_200, 2_000, 7_300},
		{"github-copilot", "get", 1, 90_000, 10_000, 700, 0, 9_300},
		{"pioneer", Shell, 1, 70_000, 70_000, 300, 0, 69_700},
		{"unknown", "unknown", 1, 5, 5, 5, 0, 0},
	}
	if got, err := Read(data, time.Now()); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v\n%+v, want\n%+v", err, got, want)
	}
}

// Damaged lines cost only themselves. A new day removes the days that are too old, and --last
// leaves out earlier ones.
func TestDays(t *testing.T) {
	data, now := t.TempDir(), time.Now()
	old, earlier := filepath.Join(data, "savings", day(now.Add(-keep-48*time.Hour))), filepath.Join(data, "savings", day(now.Add(-72*time.Hour)))
	if err := os.Mkdir(filepath.Dir(old), 0o700); err != nil {
		t.Fatal(err)
	}
	line := `{"v":1,"host":"pi","tool":"run","whole":7,"shown":7}` + "\n"
	for _, path := range []string{old, earlier} {
		if err := os.WriteFile(path, []byte(line+"{\"host\":\n\x00\xff\n"+line+line[:20]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	add(t, data, Line{Host: "pi", Tool: "run", Whole: 1, Shown: 1})
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("the day that is too old: %v", err)
	}
	for last, want := range map[time.Duration]int64{time.Hour: 1, 100 * time.Hour: 15} {
		if got, err := Read(data, time.Now().Add(-last)); err != nil || len(got) != 1 || got[0].Whole != want {
			t.Errorf("the last %s: %v %+v, want %d characters", last, err, got, want)
		}
	}
	if err := os.WriteFile(earlier, []byte(line+strings.Replace(line, `"v":1`, `"v":2`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Read(data, now.Add(-100*time.Hour)); err == nil || !strings.Contains(err.Error(), "format 2") {
		t.Errorf("with a line of another format: %v %v", got, err)
	}
	if got, err := Read(t.TempDir(), now); err != nil || len(got) > 0 {
		t.Errorf("of nothing: %v %v", got, err)
	}
}

// Processes that add at once and are killed lose nothing.
func TestProcesses(t *testing.T) {
	data := t.TempDir()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), "SAVINGS_DATA="+data)
			out, err := cmd.StdoutPipe()
			if err != nil || cmd.Start() != nil {
				t.Errorf("start: %v", err)
				return
			}
			_, _ = out.Read(make([]byte, 6))
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	all.Wait()
	if got, err := Read(data, time.Now()); err != nil || len(got) != 1 || got[0].Results != 800 {
		t.Errorf("%v %+v, want 800 results", err, got)
	}
}
