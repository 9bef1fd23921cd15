package peers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/embedded"
)

const (
	submitName    = "Stevedore, rpc.submit"
	callName      = "Stevedore, rpc.call"
	publishedName = "Stevedore, published"
	bareName      = "bare pipeline"
)

// server starts a NATS server and returns its address.
func server(sync bool) (url string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "peers-")
	if err != nil {
		return "", nil, err
	}
	s, err := embedded.Start(embedded.Config{Dir: dir, Listen: "127.0.0.1:0", NoSync: !sync})
	if err != nil {
		return "", nil, err
	}
	return s.URL(), func() {
		s.Close()
		_ = os.RemoveAll(dir)
	}, nil
}

// program builds the program that we ship, once.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "peers-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "stevedore")
	out, err := exec.Command("go", "build", "-C", "../..", "-o", path, "./cmd/stevedore").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build stevedore: %w\n%s", err, out)
	}
	return path, nil
})

// up starts "stevedore up" with its defaults, and returns its address and its process.
func up(sync bool) (url string, process *os.Process, stop func(), err error) {
	path, err := program()
	if err != nil {
		return "", nil, nil, err
	}
	dir, err := os.MkdirTemp("", "peers-")
	if err != nil {
		return "", nil, nil, err
	}
	args := []string{"up", "--json", "--listen", "127.0.0.1:0", "--console", "127.0.0.1:0", "--data", filepath.Join(dir, "data"), "--workspace", dir}
	if !sync {
		args = append(args, "--no-sync")
	}
	url, process, end, err := startProcess(exec.Command(path, args...))
	return url, process, func() {
		end()
		_ = os.RemoveAll(dir)
	}, err
}

// startProcess starts a server, which prints a JSON object with its address.
func startProcess(cmd *exec.Cmd) (url string, process *os.Process, stop func(), err error) {
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", nil, func() {}, err
	}
	var first struct{ URL string }
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &first)
	}
	stop = func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	}
	if err != nil {
		stop()
		return "", nil, func() {}, fmt.Errorf("start %s: %w", cmd, err)
	}
	return first.URL, cmd.Process, stop, nil
}

func stevedoreSubmit(sync bool) (system, error)    { return stevedore(sync, submitName, "submit") }
func stevedoreCall(sync bool) (system, error)      { return stevedore(sync, callName, "call") }
func stevedorePublished(sync bool) (system, error) { return stevedore(sync, publishedName, "") }

// stevedore runs the tool list_dir of a directory with one entry, through an endpoint of the service
// or, without one, through calls that the client publishes itself.
func stevedore(sync bool, name, endpoint string) (system, error) {
	url, process, stop, err := up(sync)
	if err != nil {
		return system{}, err
	}
	nc, err := nats.Connect(url)
	if err != nil {
		stop()
		return system{}, err
	}
	js, err := jetstream.New(nc)
	subjects, err2 := bus.NewSubjects("")
	var handled *atomic.Int64
	var err3 error
	if endpoint != "call" { // otherwise the answer is the result
		handled = new(atomic.Int64)
		_, err3 = nc.Subscribe(subjects.Stored(subjects.Result("*", "*")), func(*nats.Msg) { handled.Add(1) })
	}
	if err := errors.Join(err, err2, err3); err != nil {
		stop()
		return system{}, err
	}
	call := []byte(`{"args":{"path":"."}` + strings.Repeat(" ", 230) + `}`)
	request := func(ctx context.Context) error {
		msg, err := nc.RequestWithContext(ctx, subjects.RPC(endpoint, bus.DefaultQueue, "list_dir"), call)
		if err == nil && msg.Header.Get("Nats-Service-Error") != "" {
			err = errors.New(msg.Header.Get("Nats-Service-Error"))
		}
		return err
	}
	publish := func(ctx context.Context) error {
		_, err := js.Publish(ctx, subjects.Call(bus.DefaultQueue, "list_dir", "s", nuid.Next()), call)
		return err
	}
	return system{
		name: name, handled: handled, process: process,
		do: func(ctx context.Context, _ []byte) error {
			ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
			defer cancel()
			if endpoint == "" {
				return publish(ctx)
			}
			return request(ctx)
		},
		close: func() { nc.Close(); stop() },
	}, nil
}

// cpuTime returns the CPU time that a process has used, from /proc.
func cpuTime(p *os.Process) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid))
	if err != nil {
		return 0 // not Linux, or the process has ended
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, err := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if errors.Join(err, err2) != nil {
		return 0
	}
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100
}
