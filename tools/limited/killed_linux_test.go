package limited_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/limited"
)

func init() {
	works["kill"] = func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }
	works["start threads"] = func() {
		_ = unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: 1, Max: 1})
		if os.Getuid() == 0 { // for which the limit does not count
			_ = syscall.Setuid(65534)
		}
		for {
			started := make(chan int)
			go func() {
				runtime.LockOSThread()
				close(started)
				select {}
			}()
			<-started
		}
	}
	works["use memory and 24 threads"] = func() {
		kept := make([]byte, 2*limited.JQ.Memory) // which a kind may have
		for range 24 {
			started := make(chan int)
			go func() {
				runtime.LockOSThread()
				close(started)
				select {}
			}()
			<-started
		}
		kept[0]++
		fmt.Print(`{"result":{"Text":"done"}}`)
		os.Exit(0)
	}
	works["ask and wait"] = func() {
		stdin := strings.NewReader(`{"Do":"say and spin"}` + "\n")
		_ = limited.Run(context.Background(), answerCommand, stdin, os.Stdout) // the other process has this output too
	}
	works["say and spin"] = func() {
		fmt.Print("!")
		for x := 0; x >= 0; { // without end
			x ^= 1
		}
	}
}

// The error says what ended a process: something else than a lack of memory.
func TestKilledProcess(t *testing.T) {
	t.Parallel()
	for do, want := range map[string]string{"kill": "killed from outside (signal: killed)", "start threads": "no further thread"} {
		_, err := ask(t, do, "")
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, limited.ErrMemory) || tools.CodeOf(err) != tools.CodeToolFailed {
			t.Errorf("%s: %v; want %q", do, err, want)
		}
	}
}

// A process ends with the one that started it, however that ends.
func TestProcessEndsWithItsWorker(t *testing.T) {
	t.Parallel()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	worker := exec.Command(answerCommand[0], answerCommand[1:]...)
	worker.Stdin, worker.Stdout = strings.NewReader(`{"Do":"ask and wait"}`+"\n"), in
	err = worker.Start()
	in.Close()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	_ = worker.Process.Kill()
	_ = worker.Wait()
	_ = out.SetReadDeadline(time.Now().Add(time.Minute))
	if rest, err := io.ReadAll(out); err != nil || !bytes.Equal(rest, nil) {
		t.Errorf("a process goes on after its worker was killed: %q, %v", rest, err)
	}
}

// A process that starts threads, as the runtime does on a busy machine, has memory for them: with cgo,
// each needs 8 MiB of its limit.
func TestThreadsAreNoMemory(t *testing.T) {
	t.Parallel()
	if res, err := ask(t, "use memory and 24 threads", ""); err != nil || res.Text != "done" {
		t.Errorf("%v, %v", res, err)
	}
}
