package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

type noopJob struct {
	Text string `json:"text"`
}

// Kind implements river.JobArgs.
func (noopJob) Kind() string { return "noop" }

// riverQueue runs River on a PostgreSQL server of its own. PostgreSQL syncs every commit, or
// with synchronous_commit=off none.
func riverQueue(sync bool) (system, error) {
	bin := postgresDir()
	if bin == "" {
		return system{}, errors.New("River: PostgreSQL is not installed")
	}
	dir, err := os.MkdirTemp("", "peers-")
	if err != nil {
		return system{}, err
	}
	data := filepath.Join(dir, "data")
	if err := os.Chmod(dir, 0o755); err != nil {
		return system{}, err
	}
	if err := os.Mkdir(data, 0o700); err != nil {
		return system{}, err
	}
	run := func(args ...string) error {
		if os.Geteuid() == 0 { // PostgreSQL refuses to run as root
			args = append([]string{"setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"}, args...)
		}
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("River: %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return nil
	}
	if os.Geteuid() == 0 {
		if out, err := exec.Command("chown", "postgres", data).CombinedOutput(); err != nil {
			return system{}, fmt.Errorf("River: %w: %s", err, out)
		}
	}
	if err := run(filepath.Join(bin, "initdb"), "-D", data, "-A", "trust", "-U", "postgres"); err != nil {
		return system{}, err
	}
	commit := "off"
	if sync {
		commit = "on"
	}
	options := fmt.Sprintf("-c listen_addresses= -c unix_socket_directories=%s -c max_connections=200 -c synchronous_commit=%s", data, commit)
	if err := run(filepath.Join(bin, "pg_ctl"), "-D", data, "-w", "-l", filepath.Join(data, "log"), "-o", options, "start"); err != nil {
		return system{}, err
	}
	stop := func() {
		_ = run(filepath.Join(bin, "pg_ctl"), "-D", data, "-m", "immediate", "stop")
		_ = os.RemoveAll(dir)
	}
	s, err := startRiver("host=" + data + " user=postgres dbname=postgres pool_max_conns=80")
	if err != nil {
		stop()
		return system{}, fmt.Errorf("River: %w", err)
	}
	closeRiver := s.close
	s.close = func() { closeRiver(); stop() }
	return s, nil
}

func startRiver(address string) (system, error) {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, address)
	if err != nil {
		return system{}, err
	}
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err != nil {
		return system{}, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[noopJob]) error { return nil }))
	client, err := river.NewClient(driver, &river.Config{
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 64}},
		Workers: workers, Logger: slog.New(slog.DiscardHandler), FetchCooldown: time.Millisecond, FetchPollInterval: 20 * time.Millisecond,
	})
	if err != nil {
		return system{}, err
	}
	completed, unsubscribe := client.Subscribe(river.EventKindJobCompleted)
	if err := client.Start(ctx); err != nil {
		return system{}, err
	}
	var handled atomic.Int64
	go func() {
		for range completed {
			handled.Add(1)
		}
	}()
	return system{
		name: "River 0.51", handled: &handled,
		do: func(ctx context.Context, payload []byte) error {
			_, err := client.Insert(ctx, noopJob{string(payload)}, nil)
			return err
		},
		close: func() { unsubscribe(); _ = client.Stop(ctx); pool.Close() },
	}, nil
}

func postgresDir() string {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is valid
	if len(dirs) > 0 {
		return dirs[len(dirs)-1]
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path)
	}
	return ""
}
