package builtin

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/stevedore-bus/stevedore/tools"
)

// Limits of the artifacts of one command.
const (
	maxArtifacts     = 16
	maxArtifactBytes = 2 << 30
)

// artifactsVariable is the variable of a command with the directory of its artifacts.
const artifactsVariable = "ARTIFACTS"

// OpenArtifact opens an artifact of a session. The caller closes it. lost says which part of the result it lacks.
type OpenArtifact func(ctx context.Context, session, id string) (content io.ReadCloser, lost []string, err error)

// staged are the artifacts of one command, as files that only it uses.
type staged struct {
	root    *os.Root // the temporary directory of the command's session
	name    string   // of the directory in it
	visible string   // as the command sees it
	left    int64    // bytes that may still be written
	stdin   *os.File // nil means none
	lost    []string // what the artifacts lack
}

// stdinArtifact returns the id of {"$artifact":"ID"} as the standard input, or the text.
func stdinArtifact(stdin any) (id, text string, err error) {
	switch v := stdin.(type) {
	case nil:
		return "", "", nil
	case string:
		return "", v, nil
	case map[string]any:
		if id, ok := v["$artifact"].(string); ok && id != "" && len(v) == 1 {
			return id, "", nil
		}
	}
	return "", "", tools.Errorf(tools.CodeInvalidArguments, `stdin must be a text or {"$artifact":"ID"}`)
}

// stage writes the artifacts that a command names. The caller calls remove after the command.
func (sh *shell) stage(ctx context.Context, call tools.Call, ids []string, stdin string) (*staged, error) {
	if len(ids) == 0 && stdin == "" {
		return &staged{}, nil
	}
	if sh.cfg.Artifacts == nil {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "this worker passes no artifacts to commands")
	}
	if len(ids) > maxArtifacts {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "a command can have %d artifacts, not %d", maxArtifacts, len(ids))
	}
	tmp, visible, err := sh.sandbox.Tmp(call.SessionToken())
	if err != nil {
		return nil, err
	}
	s := &staged{name: "artifacts-" + rand.Text(), left: maxArtifactBytes}
	s.visible = filepath.Join(visible, s.name)
	// Commands can write there, so a link must not lead out of it.
	if s.root, err = os.OpenRoot(tmp); err != nil {
		return nil, err
	}
	err = s.root.Mkdir(s.name, 0o700)
	for _, id := range ids {
		if err == nil {
			err = sh.write(ctx, call, s, id, tools.TokenOf(id))
		}
	}
	if err == nil && stdin != "" {
		if err = sh.write(ctx, call, s, stdin, ".stdin"); err == nil {
			s.stdin, err = s.root.Open(filepath.Join(s.name, ".stdin"))
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.remove())
	}
	return s, nil
}

// write writes one artifact to a file that nothing can write.
func (sh *shell) write(ctx context.Context, call tools.Call, s *staged, id, name string) (err error) {
	src, lost, err := sh.cfg.Artifacts(ctx, call.SessionToken(), id)
	if err != nil {
		return err
	}
	defer src.Close()
	f, err := s.root.OpenFile(filepath.Join(s.name, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if errors.Is(err, os.ErrExist) {
		return nil // the command names the artifact twice
	}
	if err != nil {
		return fmt.Errorf("write the artifact %.100q for the command: %w", id, err)
	}
	n, err := io.Copy(f, io.LimitReader(src, s.left+1))
	if err = cmp.Or(err, f.Close()); err != nil {
		return fmt.Errorf("write the artifact %.100q for the command: %w", id, err)
	}
	if s.left -= n; s.left < 0 {
		return tools.Errorf(tools.CodeInvalidArguments, "the artifacts of a command may have %d bytes together", int64(maxArtifactBytes))
	}
	for _, note := range lost {
		if note = fmt.Sprintf("[%s: %s]", tools.Excerpt(id, 100), note); !slices.Contains(s.lost, note) {
			s.lost = append(s.lost, note)
		}
	}
	return nil
}

// environment returns the variable with the directory.
func (s *staged) environment() []string {
	if s.root == nil {
		return nil
	}
	return []string{artifactsVariable + "=" + s.visible}
}

// remove removes the files.
func (s *staged) remove() (err error) {
	if s.root == nil {
		return nil
	}
	if s.stdin != nil {
		err = s.stdin.Close()
	}
	return errors.Join(err, s.root.RemoveAll(s.name), s.root.Close())
}
