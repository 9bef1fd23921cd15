package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// The files of a stream in a backup are those of "nats stream backup" with a server 2.15.
const (
	backupData = "stream.arc.s2"
	backupMeta = "backup.json" // written last: a copy without it is not complete
)

// ErrDamaged means that a file of a backup is not as Backup wrote it. The text names the file.
var ErrDamaged = errors.New("the backup is damaged or not complete")

// errRestore is the code of a server that cannot read a copy.
const errRestore = 10062

// SavedStream is a stream in a backup.
type SavedStream struct {
	Stream   string `json:"stream"`
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"` // in the stream; the file is compressed
}

// backupOrder lists the streams so that a backup of a bus in use repeats work rather than
// loses it: a call is saved before its result, a result before its notification, and the
// record of an artifact before its bytes. But a call that
// moves between the calls stream and the parked records in that time may be in neither copy.
func backupOrder(b *bus.Bus) []string {
	names := []string{}
	for _, stream := range []string{bus.Ticks, bus.Calls} {
		names = append(names, b.StreamName(stream))
	}
	names = append(names, b.BucketStream(bus.TasksBucket))
	for _, stream := range []string{bus.Sessions, bus.Results, bus.Outbox, bus.Dead} {
		names = append(names, b.StreamName(stream))
	}
	return append(names, b.BucketStream(bus.StateBucket), b.BucketStream(bus.ArtifactsBucket), "OBJ_"+b.BucketName(bus.BlobsBucket))
}

// Backup saves all streams and buckets with their consumers into dir, which must not exist
// or must be empty. It calls show before each one. Restore moves those of an earlier format; if
// some could not be moved, the error is a *jsapi.FormatError and nothing is saved.
func Backup(ctx context.Context, b *bus.Bus, dir string, show func(stream string)) ([]SavedStream, error) {
	if _, err := pendingSteps(ctx, b); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if files, err := os.ReadDir(dir); err != nil {
		return nil, err
	} else if len(files) > 0 {
		return nil, fmt.Errorf("the directory %q is not empty; name a new one", dir)
	}
	saved := []SavedStream{}
	for _, name := range backupOrder(b) {
		if _, err := b.JetStream().Stream(ctx, name); b.IsUnused(ctx, name, err) {
			continue
		}
		show(name)
		s, err := saveStream(ctx, b, name, filepath.Join(dir, name))
		if err != nil {
			return saved, fmt.Errorf("save stream %s: %w", name, err)
		}
		saved = append(saved, s)
	}
	return saved, nil
}

func saveStream(ctx context.Context, b *bus.Bus, name, dir string) (SavedStream, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return SavedStream{}, err
	}
	var snapshot jsapi.Snapshot
	err := writeSynced(filepath.Join(dir, backupData), func(w io.Writer) (err error) {
		snapshot, err = b.API().SaveStream(ctx, name, w)
		return err
	})
	if err != nil {
		return SavedStream{}, err
	}
	err = writeSynced(filepath.Join(dir, backupMeta), func(w io.Writer) error { return json.NewEncoder(w).Encode(snapshot) })
	if err != nil {
		return SavedStream{}, err
	}
	return savedStream(snapshot)
}

func savedStream(s jsapi.Snapshot) (SavedStream, error) {
	state, err := stateOf(s)
	return SavedStream{Stream: s.Config.Name, Messages: state.Msgs, Bytes: state.Bytes}, err
}

func stateOf(s jsapi.Snapshot) (state jetstream.StreamState, err error) {
	return state, json.Unmarshal(s.State, &state)
}

// writeSynced makes a file whose contents survive a power failure.
func writeSynced(name string, write func(io.Writer) error) (err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := write(f); err != nil {
		return err
	}
	return f.Sync()
}

// Restore creates the streams and buckets of a backup, with their messages and consumers. The stream of calls
// is the last one: if the process dies, the server keeps a part of the backup, which then nobody takes for all of it.
// A stream that was sealed stores messages again. It checks the whole backup first and changes nothing if a copy is not complete, if one
// has a format that Move does not know or belongs to another prefix, or if one of the streams
// exists. If it fails, it removes what it created and nobody has written to. At the end, it moves those of an
// earlier format.
func Restore(ctx context.Context, b *bus.Bus, dir string, show func(stream string)) ([]SavedStream, error) {
	snapshots, err := readBackup(ctx, b, dir)
	if err != nil {
		return nil, err
	}
	restored := []SavedStream{}
	for i, s := range snapshots {
		show(s.Config.Name)
		if b.Config().Replicas > 0 {
			s.Config.Replicas = b.Config().Replicas
		}
		c, want := &s.Config, b.StreamOf(b.Config(), s.Config.Name)
		if c.Sealed { // and so changed
			c.MaxAge, c.Discard = want.MaxAge, want.Discard
		}
		c.Sealed, c.DenyDelete, c.DenyPurge, c.AllowRollup = false, want.DenyDelete, want.DenyPurge, want.AllowRollup
		c.AllowMsgTTL = want.AllowMsgTTL
		if err := loadStream(ctx, b, s, filepath.Join(dir, s.Config.Name, backupData)); err != nil {
			created := snapshots[:i+1]
			if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // somebody else created it meanwhile
				created = snapshots[:i]
			}
			return undo(ctx, b, created, fmt.Errorf("restore stream %s: %w", s.Config.Name, err))
		}
		saved, err := savedStream(s)
		if err != nil {
			return restored, err
		}
		restored = append(restored, saved)
	}
	_, err = Move(ctx, b, "", func(s Step) { show(s.Stream + ", version " + s.To.String()) })
	return restored, err
}

// undo removes what a restoration that failed has created, so that it can be repeated. It returns what it left.
func undo(ctx context.Context, b *bus.Bus, created []jsapi.Snapshot, failed error) (left []SavedStream, _ error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.Config().Timeout)
	defer cancel()
	for _, s := range created {
		if err := removeRestored(ctx, b, s); err != nil {
			failed = errors.Join(failed, fmt.Errorf("the restored stream %s stays: %w", s.Config.Name, err))
			left = append(left, SavedStream{Stream: s.Config.Name})
		}
	}
	return left, failed
}

// removeRestored removes a stream that has no message which the copy did not have: a client may have written
// to it, and has its acknowledgement.
func removeRestored(ctx context.Context, b *bus.Bus, s jsapi.Snapshot) error {
	copied, err := stateOf(s)
	if err != nil {
		return err
	}
	stream, err := b.JetStream().Stream(ctx, s.Config.Name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil
	case err != nil:
		return err
	case stream.CachedInfo().State.LastSeq > copied.LastSeq:
		return errors.New("clients have written to it since; stop them before a restoration")
	}
	return b.JetStream().DeleteStream(ctx, s.Config.Name)
}

// readBackup returns what a backup contains, the calls last, after it has checked that it can be restored.
func readBackup(ctx context.Context, b *bus.Bus, dir string) ([]jsapi.Snapshot, error) {
	found, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	order := backupOrder(b)
	var snapshots []jsapi.Snapshot
	var unused []string
	var calls jsapi.Snapshot
	var other jsapi.FormatError
	for _, name := range order {
		text, err := os.ReadFile(filepath.Join(dir, name, backupMeta))
		if errors.Is(err, fs.ErrNotExist) {
			unused = append(unused, name)
			continue
		}
		if err != nil {
			return nil, err
		}
		var s jsapi.Snapshot
		if err := json.Unmarshal(text, &s); err != nil || s.Config.Name != name {
			return nil, fmt.Errorf("%w: %s is not the description of the stream %s", ErrDamaged, filepath.Join(dir, name, backupMeta), name)
		}
		info := jetstream.StreamInfo{Config: s.Config}
		if err := json.Unmarshal(s.State, &info.State); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, name, backupMeta), err)
		}
		if d, ok := jsapi.CheckFormat(&info, b.Wants(name)); !ok {
			other.Differences = append(other.Differences, d)
		}
		if _, err := os.Stat(filepath.Join(dir, name, backupData)); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		_, err = b.JetStream().Stream(ctx, name)
		if err == nil {
			left := ""
			if _, err := b.LookUp(ctx, b.StreamName(bus.Calls)); errors.Is(err, jetstream.ErrStreamNotFound) {
				left = "; if an interrupted restoration has left them, which stores the calls last, remove them first"
			}
			return nil, fmt.Errorf("the stream %s exists: restore a backup on a server without the streams of the prefix %q%s", name, b.Prefix(), left)
		}
		if !errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil, err
		}
		if name == b.StreamName(bus.Calls) {
			calls = s
			continue
		}
		snapshots = append(snapshots, s)
	}
	if _, ok := Steps(&other); !ok {
		return nil, &other
	}
	for _, name := range unused {
		if !b.MayBeUnused(name, calls.Config) {
			return nil, fmt.Errorf("%w: %q is not a complete backup of the prefix %q: it has no %s", ErrDamaged, dir, b.Prefix(), filepath.Join(name, backupMeta))
		}
	}
	for _, entry := range found { // people keep there what else belongs to a backup, such as a state file
		if !entry.IsDir() || slices.Contains(order, entry.Name()) {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, entry.Name(), backupData)); !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%q does not belong to the backup", filepath.Join(dir, entry.Name()))
		}
	}
	return append(snapshots, calls), nil
}

func loadStream(ctx context.Context, b *bus.Bus, s jsapi.Snapshot, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	err = b.API().LoadStream(ctx, s, f)
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && api.ErrorCode == errRestore {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, file, err)
	}
	return err
}
