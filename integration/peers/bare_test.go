package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// bareEnv makes the test binary serve the bare pipeline. Its value is "true" if the server syncs.
const bareEnv = "STEVEDORE_BARE_SYNC"

func TestMain(m *testing.M) {
	if sync := os.Getenv(bareEnv); sync != "" {
		if err := serveBare(sync == "true"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serveBare is the least that a durable job needs on the same server: a stream of jobs, a
// consumer, a stream of results, and JSON for both. It ends with an interrupt.
func serveBare(sync bool) error {
	url, stop, err := server(sync)
	if err != nil {
		return err
	}
	defer stop()
	nc, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, end := signal.NotifyContext(context.Background(), os.Interrupt)
	defer end()
	jobs, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "JOBS", Subjects: []string{"job.*"}, Retention: jetstream.WorkQueuePolicy})
	_, err2 := js.CreateStream(ctx, jetstream.StreamConfig{Name: "DONE", Subjects: []string{"done.*"}})
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	consumer, err := jobs.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: "worker", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		return err
	}
	running, err := consumer.Consume(func(msg jetstream.Msg) {
		var job, result struct {
			Text      string    `json:"text"`
			StartedAt time.Time `json:"started_at,omitzero"`
		}
		err := json.Unmarshal(msg.Data(), &job)
		result.Text, result.StartedAt = job.Text, time.Now()
		body, err2 := json.Marshal(result)
		done, err3 := js.PublishAsync("done"+strings.TrimPrefix(msg.Subject(), "job"), body)
		if errors.Join(err, err2, err3) != nil {
			return // it is delivered again
		}
		go func() {
			<-done.Ok()
			_ = msg.Ack()
		}()
	})
	if err != nil {
		return err
	}
	defer running.Stop()
	fmt.Printf("{\"url\":%q}\n", url)
	<-ctx.Done()
	return nil
}

// barePipeline publishes jobs to a process of serveBare.
func barePipeline(sync bool) (system, error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), fmt.Sprintf("%s=%v", bareEnv, sync)), os.Stderr
	url, process, stop, err := startProcess(cmd)
	if err != nil {
		stop()
		return system{}, err
	}
	nc, err := nats.Connect(url)
	if err != nil {
		stop()
		return system{}, err
	}
	js, err := jetstream.New(nc)
	var handled atomic.Int64
	_, err2 := nc.Subscribe("done.*", func(*nats.Msg) { handled.Add(1) })
	if err := errors.Join(err, err2); err != nil {
		stop()
		return system{}, err
	}
	return system{
		name: bareName, handled: &handled, process: process,
		do: func(ctx context.Context, payload []byte) error {
			_, err := js.Publish(ctx, "job."+nuid.Next(), payload)
			return err
		},
		close: func() { nc.Close(); stop() },
	}, nil
}
