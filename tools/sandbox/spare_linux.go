package sandbox

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/stevedore-bus/stevedore/tools/sandbox/internal/enter"
)

// spares keeps one process that has started, is in its namespaces, and waits for a command. The
// start of the worker's program, which is large, would otherwise be a third of the time of a short
// command. A command that finds no spare starts its own process.
type spares struct {
	mu     sync.Mutex
	next   chan *spare // yields the spare when it has started; nil if a command took it
	closed bool
}

// spare is a process that waits. It ends if the socket is closed, also by the death of the worker.
type spare struct {
	cmd    *exec.Cmd
	socket *os.File
	attr   syscall.SysProcAttr
}

// start starts cmd in the spare process, if possible, and prepares the next one.
func (p *platform) start(cmd *exec.Cmd) error {
	text, streams, ok := message(cmd)
	if !ok || p.needsReaper() { // a reaper needs a pipe of its own
		return cmd.Start()
	}
	defer p.prepare(*cmd.SysProcAttr)
	if spare := p.spares.take(); spare != nil {
		if reflect.DeepEqual(spare.attr, *cmd.SysProcAttr) && spare.send(text, streams) == nil {
			cmd.Process = spare.cmd.Process
			return nil
		}
		spare.end()
	}
	return cmd.Start()
}

// message returns what a spare process needs to become cmd. Streams that are not set are nil.
func message(cmd *exec.Cmd) (text string, streams []*os.File, ok bool) {
	for _, stream := range []any{cmd.Stdin, cmd.Stdout, cmd.Stderr} {
		file, isFile := stream.(*os.File)
		if stream != nil && !isFile {
			return "", nil, false
		}
		streams = append(streams, file)
	}
	text = (&enter.Command{Argv: cmd.Args[1:], Env: cmd.Env}).Encode()
	return text, streams, cmd.Err == nil && len(cmd.ExtraFiles) == 0 && len(text) <= enter.MaxCommand
}

func (p *platform) close() {
	p.spares.mu.Lock()
	p.spares.closed = true
	p.spares.mu.Unlock()
	if spare := p.spares.take(); spare != nil {
		spare.end()
	}
}

// take returns the spare process, or nil if there is none. It waits for one that is starting, which
// is faster than to start another one at the same time.
func (s *spares) take() *spare {
	s.mu.Lock()
	next := s.next
	s.next = nil
	s.mu.Unlock()
	if next == nil {
		return nil
	}
	return <-next
}

// prepare starts a spare process in the background, if there is none.
func (p *platform) prepare(attr syscall.SysProcAttr) {
	s := &p.spares
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.next != nil {
		return
	}
	next := make(chan *spare, 1)
	s.next = next
	go func() {
		parent() <- func() {
			spare, _ := startSpare(attr, p.prepared()) // if an error lasts, the next command reports it
			next <- spare
			if spare != nil {
				go s.watch(spare, next)
			}
		}
	}()
}

// watch waits for a spare process that ends before a command takes it, so that it does not stay
// a zombie.
func (s *spares) watch(spare *spare, next chan *spare) {
	if _, err := spare.socket.Read(make([]byte, 1)); errors.Is(err, os.ErrClosed) {
		return // it was taken
	}
	s.mu.Lock()
	ours := s.next == next
	if ours {
		s.next = nil
	}
	s.mu.Unlock()
	if ours {
		(<-next).end()
	}
}

// parent returns a channel of functions to a thread that never ends: the kernel kills a spare
// process when the thread that started it ends.
var parent = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

func startSpare(attr syscall.SysProcAttr, spec *enter.Spec) (*spare, error) {
	spec.Await = true
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	_ = unix.SetNonblock(ends[0], true) // so that Close ends a Read
	far := os.NewFile(uintptr(ends[1]), "spare")
	defer far.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args, cmd.Dir, cmd.Env = []string{"stevedore-sandbox"}, "/", encode(spec, nil)
	own := attr
	cmd.SysProcAttr, cmd.ExtraFiles = &own, []*os.File{far}
	socket := os.NewFile(uintptr(ends[0]), "spare")
	if err := cmd.Start(); err != nil {
		_ = socket.Close()
		return nil, err
	}
	return &spare{cmd: cmd, socket: socket, attr: attr}, nil
}

// send has the process become the command of a message.
func (s *spare) send(text string, streams []*os.File) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	var fds []int
	for _, stream := range streams {
		fds = append(fds, int(cmp.Or(stream, null).Fd()))
	}
	conn, err := s.socket.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	if err := conn.Write(func(fd uintptr) bool {
		sent = unix.Sendmsg(int(fd), []byte(text), unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL)
		return sent != unix.EAGAIN
	}); err != nil {
		return err
	}
	if sent == nil {
		_ = s.socket.Close()
	}
	return sent
}

// end ends the process.
func (s *spare) end() {
	_ = s.socket.Close()
	_ = s.cmd.Wait()
}
