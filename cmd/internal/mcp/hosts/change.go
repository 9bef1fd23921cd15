package hosts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/stevedore-bus/stevedore/state/durable"
)

// Change says what shall happen to the servers of a file.
type Change struct {
	// Names are the servers; none means all.
	Names []string
	// Prefix is put before the commands, such as stevedore mcp wrap --. If it is nil, the
	// prefixes are removed.
	Prefix []string
	// Backups is the directory in which the original is stored.
	Backups string
	// DryRun computes the outcome and writes nothing.
	DryRun bool
}

// Outcome is what happened to a server.
type Outcome struct {
	Server
	// Changed tells that the server was wrapped or unwrapped. If it was not, Why says
	// why, in words that follow its name.
	Changed bool
	Why     string
	// Restored tells that the whole file has the bytes that it had before.
	Restored bool
}

// WrappedAlready is the Why of a server that needs no change.
const WrappedAlready = "is wrapped already"

// maxFile bounds the memory. Claude Code keeps the history of projects in its file.
const maxFile = 64 << 20

var mark = []byte("\xef\xbb\xbf") // the byte order mark

// Read returns the servers of the file. The error wraps fs.ErrNotExist if there is none.
func (l Location) Read() ([]Server, error) {
	_, data, err := l.load()
	if err != nil {
		return nil, err
	}
	return l.servers(bytes.TrimPrefix(data, mark))
}

// load returns the content of the file and its path without symbolic links.
func (l Location) load() (path string, data []byte, err error) {
	path, err = filepath.EvalSymlinks(l.Path)
	if err != nil {
		return "", nil, err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", nil, err
	case !info.Mode().IsRegular():
		return "", nil, errors.New("it is not a regular file")
	case info.Size() > maxFile:
		return "", nil, fmt.Errorf("it has more than %d bytes", maxFile)
	}
	data, err = os.ReadFile(path)
	return path, data, err
}

// errMoved means that another program wrote the file at the same time.
var errMoved = errors.New("another program changed it at the same time; try again")

// Apply changes the file. An error means that the file is as before, and says what is wrong;
// it wraps fs.ErrNotExist if there is no file.
func (l Location) Apply(ctx context.Context, c Change) (outcomes []Outcome, err error) {
	if _, _, err := l.load(); err != nil { // do not make directories for nothing
		return nil, err
	}
	if !c.DryRun {
		unlock, err := records(c.Backups).lock(ctx)
		if err != nil {
			return nil, err
		}
		defer unlock()
	}
	for range 5 { // Claude Code writes its file often
		if outcomes, err = l.apply(c); !errors.Is(err, errMoved) {
			break
		}
	}
	return outcomes, err
}

func (l Location) apply(c Change) ([]Outcome, error) {
	p, err := l.prepare(c)
	if err != nil || c.DryRun {
		return p.outcomes, err
	}
	if err := errors.Join(RemoveTemps(p.path), RemoveTemps(records(c.Backups).path(p.path))); err != nil {
		return nil, err
	}
	if !bytes.Equal(p.data, p.before) {
		if err := write(p.path, p.before, p.data); err != nil {
			return nil, err
		}
	} else if c.Prefix != nil || len(p.ours) > 0 {
		return p.outcomes, nil
	}
	if len(p.add) == 0 { // also if a process died here before
		return p.outcomes, records(c.Backups).remove(p.path)
	}
	return p.outcomes, nil
}

// prepare computes the new content and stores the record that belongs to the present
// content and to the new one.
func (l Location) prepare(c Change) (p plan, err error) {
	path, data, err := l.load()
	if err != nil {
		return p, err
	}
	if info, err := os.Stat(path); err != nil {
		return p, err
	} else if foreign(info) {
		return p, errors.New("it belongs to another user; run this command as that user")
	}
	rec, err := records(c.Backups).load(path)
	if err != nil {
		return p, err
	}
	p, err = l.plan(data, rec, c)
	p.path, p.before = path, data
	if err != nil || c.DryRun || bytes.Equal(p.data, data) {
		return p, err
	}
	next := record{Host: l.host.Name, Path: path, Time: time.Now().UTC(), Written: []string{digest(data), digest(p.data)}, Original: p.original}
	for _, all := range []targets{p.add, p.ours} {
		for key, prefix := range all {
			next.Servers = append(next.Servers, recordServer{key, prefix})
		}
	}
	return p, records(c.Backups).store(next)
}

// RemoveTemps removes what processes that died while they wrote this file left behind. It may
// contain secrets. No other process writes the file.
func RemoveTemps(path string) error {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer root.Close()
	return durable.Dir{Root: root}.RemoveTemps(filepath.Base(path))
}

// write replaces the content of a file if it is still the old one.
func write(path string, before, after []byte) error {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer root.Close()
	return durable.Dir{Root: root}.WriteFile(filepath.Base(path), after, 0o600, func() error {
		now, err := os.ReadFile(path)
		if err == nil && !bytes.Equal(now, before) || errors.Is(err, fs.ErrNotExist) {
			return errMoved
		}
		return err
	})
}

// plan is what a change does to a file.
type plan struct {
	path     string
	before   []byte  // the present content
	data     []byte  // the new content
	original []byte  // the content without any prefix of ours
	ours     targets // what the file has
	add      targets // what it shall have
	outcomes []Outcome
}

// plan computes the new content from the content without prefixes: the stored original, if
// nobody changed the file since, and otherwise the present one without them.
func (l Location) plan(file []byte, rec *record, c Change) (p plan, err error) {
	data := bytes.TrimPrefix(file, mark)
	bom := file[:len(file)-len(data)]
	servers, err := l.servers(data)
	if err != nil {
		return p, err
	}
	p.ours, p.add = targets{}, targets{}
	byHand := targets{}
	for _, s := range servers {
		key := pathKey(s.path)
		have := rec.prefix(key, s.Command)
		p.ours.put(key, have)
		if len(c.Names) > 0 && !slices.Contains(c.Names, s.Name) {
			p.add.put(key, have)
			continue
		}
		o, prefix := Outcome{Server: s}, []string(nil)
		if c.Prefix != nil {
			prefix, o.Changed, o.Why = s.install(have, c.Prefix)
			p.add.put(key, prefix)
		} else {
			prefix, o.Changed, o.Why = s.uninstall(have, len(c.Names) > 0)
			byHand.put(key, prefix)
		}
		p.outcomes = append(p.outcomes, o)
	}
	p.data = file
	if !slices.ContainsFunc(p.outcomes, func(o Outcome) bool { return o.Changed }) {
		return p, nil
	}
	base, unchanged := data, rec.wrote(file)
	if unchanged {
		base = bytes.TrimPrefix(rec.Original, mark)
	} else if base, err = l.unwrap(data, p.ours); err != nil {
		return p, err
	}
	if base, err = l.unwrap(base, byHand); err != nil {
		return p, err
	}
	after, err := l.wrap(base, p.add)
	if err != nil {
		return p, err
	}
	p.original, p.data = slices.Concat(bom, base), slices.Concat(bom, after)
	for i := range p.outcomes {
		p.outcomes[i].Restored = unchanged && bytes.Equal(p.data, rec.Original)
	}
	return p, nil
}

// install returns the prefix that the server shall have. have is the one of ours that it has.
func (s Server) install(have, want []string) (prefix []string, changed bool, why string) {
	switch {
	case s.Left != "":
		return nil, false, s.Left
	case have != nil:
		return want, !slices.Equal(have, want), WrappedAlready
	case s.Wrapped:
		return nil, false, WrappedAlready
	}
	return want, true, ""
}

// uninstall returns the prefix that must be removed and that no record has.
func (s Server) uninstall(have []string, named bool) (byHand []string, changed bool, why string) {
	end := slices.Index(s.Command, "--")
	switch {
	case have != nil:
		return nil, true, ""
	case !s.Wrapped:
		return nil, false, "is not wrapped"
	case wrapStart(s.Command) > 0 || end < 0 || end == len(s.Command)-1:
		return nil, false, "was wrapped by hand in another form; edit the file"
	case !named:
		return nil, false, "was wrapped by hand, or with another --data; give that --data, or name it to unwrap it"
	}
	return s.Command[:end+1], true, ""
}
