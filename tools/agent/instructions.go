package agent

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v3"

	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// instructionsFile is the name of a file with instructions for agents; see
	// https://agents.md.
	instructionsFile = "AGENTS.md"
	// skillFile is the name of the file that describes a skill; see https://agentskills.io.
	skillFile = "SKILL.md"
	// maxInstructions is how much of a file with instructions the model gets, in bytes.
	maxInstructions = 32 << 10
	// maxFrontMatter is how much of a skill's file is read for its description, in bytes.
	maxFrontMatter = 16 << 10
	// maxSkills is how many skills the model is told of.
	maxSkills = 100
	// maxDescription bounds the description of a skill, as the format does.
	maxDescription = 1024
)

// skillDirs are the directories of skills in a workspace.
var skillDirs = []string{"skills", ".agents/skills", ".claude/skills"}

// Instructions finds and reads the files in which an operator tells agents what to do. It
// reads them again for each prompt. It knows the files that exist when it is made: a file
// that appears later may come from a tool, so only a restart uses it.
type Instructions struct {
	root   string   // the directory that the paths are relative to, and that links cannot leave
	agents []string // paths of AGENTS.md files, the outermost first
	skills []string // paths of SKILL.md files
	// workspace is the path of the workspace, relative to the root.
	workspace string
}

// InstructionText is what the instructions say now.
type InstructionText struct {
	// Text is for the system prompt. It is empty if there are no files.
	Text string
	// Files are the paths of the files that it comes from. Ignored are those of the others: they are gone or empty, have no front
	// matter with a name and a description, or there are too many skills.
	Files, Ignored []string
}

// FindInstructions finds the instructions for agents that work in a workspace: AGENTS.md in
// the workspace and in its parents, up to the root of its repository, and the skills of the
// workspace.
func FindInstructions(workspace string) (*Instructions, error) {
	workspace, err := filepath.Abs(workspace)
	if err != nil {
		return nil, fmt.Errorf("find instructions: %w", err)
	}
	in := &Instructions{root: repositoryOf(workspace)}
	below, _ := filepath.Rel(in.root, workspace) // both are absolute
	in.workspace = filepath.ToSlash(below)
	root, err := os.OpenRoot(in.root)
	if err != nil {
		return nil, fmt.Errorf("find instructions: %w", err)
	}
	defer root.Close()
	for dir := in.workspace; ; dir = path.Dir(dir) {
		in.agents = append(in.agents, findFile(root, dir, instructionsFile)...)
		if dir == "." {
			break
		}
	}
	slices.Reverse(in.agents)
	for _, dir := range skillDirs {
		dir = path.Join(in.workspace, dir)
		entries, _ := fs.ReadDir(root.FS(), dir) // it may not exist
		for _, entry := range entries {
			in.skills = append(in.skills, findFile(root, path.Join(dir, entry.Name()), skillFile)...)
		}
	}
	return in, nil
}

// repositoryOf returns the nearest directory with a repository, from dir up, or dir.
func repositoryOf(dir string) string {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, ".git")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			return dir
		}
	}
}

func findFile(root *os.Root, dir, name string) []string {
	file := path.Join(dir, name)
	if info, err := root.Stat(file); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	return []string{file}
}

// Read returns what the files say now.
func (in *Instructions) Read() (InstructionText, error) {
	root, err := os.OpenRoot(in.root)
	if err != nil {
		return InstructionText{}, fmt.Errorf("read instructions: %w", err)
	}
	defer root.Close()
	var found InstructionText
	var b strings.Builder
	for _, file := range in.agents {
		data, size, err := readStart(root, file, maxInstructions)
		if err != nil || len(bytes.TrimSpace(data)) == 0 {
			found.Ignored = append(found.Ignored, file)
			continue
		}
		fmt.Fprintf(&b, "\n\n# Instructions from %s\n\n%s", file, strings.TrimSpace(strings.ToValidUTF8(string(data), "\uFFFD")))
		if size > int64(len(data)) {
			fmt.Fprintf(&b, "\n\n[The file has %d bytes; only the first %d are shown here.]", size, len(data))
		}
		found.Files = append(found.Files, file)
	}
	heading := "\n\n# Skills\n\nA skill is a file with instructions for a kind of task. Read its file before you do such a task.\n"
	read := in.skills[:min(len(in.skills), maxSkills)]
	for _, file := range read {
		name, description, ok := readSkill(root, file)
		shown, err := filepath.Rel(filepath.FromSlash(in.workspace), filepath.FromSlash(file))
		if !ok || err != nil {
			found.Ignored = append(found.Ignored, file)
			continue
		}
		fmt.Fprintf(&b, "%s\n- %s (%s): %s", heading, name, filepath.ToSlash(shown), description)
		heading = ""
		found.Files = append(found.Files, file)
	}
	found.Ignored = append(found.Ignored, in.skills[len(read):]...)
	found.Text = strings.TrimSpace(b.String())
	return found, nil
}

// readStart returns the first bytes of a file, and its size.
func readStart(root *os.Root, file string, limit int64) (data []byte, size int64, err error) {
	f, err := root.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a tool may have put a pipe there
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrInvalid
	}
	if err != nil {
		return nil, 0, err
	}
	data, err = io.ReadAll(io.LimitReader(f, limit))
	return data, info.Size(), err
}

// readSkill reads the front matter of a skill: YAML between two lines "---".
func readSkill(root *os.Root, file string) (name, description string, ok bool) {
	data, _, err := readStart(root, file, maxFrontMatter)
	text := strings.ReplaceAll(strings.TrimPrefix(string(data), "\ufeff"), "\r\n", "\n")
	rest, found := strings.CutPrefix(text, "---\n")
	matter, _, ended := strings.Cut(rest, "\n---")
	var skill struct {
		Name        string `yaml:"name"`
		Description string `yaml:"description"`
	}
	if err != nil || !found || !ended || yaml.Unmarshal([]byte(matter), &skill) != nil || skill.Name == "" || skill.Description == "" {
		return "", "", false
	}
	return tools.Excerpt(tools.OneLine(skill.Name), 64), tools.Excerpt(tools.OneLine(skill.Description), maxDescription), true
}
