package peers

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
)

// redisQueue runs asynq on a Redis server of its own, with its append-only file.
func redisQueue(sync bool) (system, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return system{}, errors.New("asynq: redis-server is not installed")
	}
	dir, err := os.MkdirTemp("", "peers-")
	if err != nil {
		return system{}, err
	}
	fsync := "everysec"
	if sync {
		fsync = "always"
	}
	socket := filepath.Join(dir, "socket")
	cmd := exec.Command(program, "--port", "0", "--unixsocket", socket, "--dir", dir, "--appendonly", "yes", "--appendfsync", fsync, "--save", "")
	if err := cmd.Start(); err != nil {
		return system{}, err
	}
	for range 500 {
		if _, err := os.Stat(socket); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	address := asynq.RedisClientOpt{Network: "unix", Addr: socket, PoolSize: 80}
	client := asynq.NewClient(address)
	server := asynq.NewServer(address, asynq.Config{Concurrency: 64, LogLevel: asynq.FatalLevel})
	var handled atomic.Int64
	if err := server.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		_, err := task.ResultWriter().Write([]byte("ok"))
		handled.Add(1)
		return err
	})); err != nil {
		return system{}, err
	}
	return system{
		name: "asynq 0.26", handled: &handled,
		do: func(ctx context.Context, payload []byte) error {
			_, err := client.EnqueueContext(ctx, asynq.NewTask("noop", payload), asynq.Retention(time.Hour))
			return err
		},
		close: func() {
			server.Shutdown()
			_ = client.Close()
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			_ = os.RemoveAll(dir)
		},
	}, nil
}
