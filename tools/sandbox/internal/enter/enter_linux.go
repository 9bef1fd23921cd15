package enter

import (
	"syscall"
	"unsafe"
)

// init runs the command of a re-executed process. It does nothing in other processes.
func init() {
	encoded, ok := syscall.Getenv(Variable)
	if !ok {
		return
	}
	argv := arguments()
	spec := decode(encoded)
	prepare(spec)
	if spec.Await {
		argv = await()
		encoded, _ = syscall.Getenv(Variable)
		spec = decode(encoded)
	}
	for _, name := range append(spec.Unset, Variable) {
		_ = syscall.Unsetenv(name)
	}
	confine(spec)
	if len(argv) == 0 { // a test of the kernel
		syscall.Exit(0)
	}
	argv[0] = lookPath(argv[0])
	if spec.First || spec.Reap {
		supervise(argv, spec.Reap)
	}
	failed(argv[0], syscall.Exec(argv[0], argv, syscall.Environ()))
}

func decode(encoded string) *Spec {
	spec, err := Decode(encoded)
	if err != nil {
		fail("read "+Variable, err)
	}
	return spec
}

// prepare sets up what is the same for all commands.
func prepare(s *Spec) {
	if s.MapUser {
		mapUser(s)
	}
	if s.Loopback {
		must("start the loopback interface", loopback())
	}
}

// failed ends this process as a shell does that cannot execute a program.
func failed(program string, err error) {
	complain(program, err)
	if err == syscall.ENOENT {
		syscall.Exit(127)
	}
	syscall.Exit(126)
}

// confine takes the rights of this thread away, one after the other. Init functions run
// on the main thread, which also starts the command. If this process stays beside the command,
// its other threads keep their rights, so it is not dumpable: the command cannot trace it.
func confine(s *Spec) {
	if s.DieWithParent && !s.Reap { // a reaper outlives the worker to kill the command
		must("die with the worker", prctl(prSetPdeathsig, uintptr(syscall.SIGKILL), 0))
	}
	for _, l := range s.Limits {
		must("set a resource limit", setLimit(l))
	}
	if s.Mounts {
		mounts(s)
	}
	must("enter the working directory", syscall.Chdir(s.Dir))
	if s.Unconfined {
		return
	}
	must("close the files of the worker", closeFiles())
	must("set no_new_privs", prctl(prSetNoNewPrivs, 1, 0))
	must("clear dumpable", prctl(syscall.PR_SET_DUMPABLE, 0, 0))
	must("drop capabilities", dropCapabilities())
	if s.Landlock > 0 {
		landlock(s)
	}
	if s.Filter != "" {
		must("install the seccomp filter", seccomp(s.Filter))
	}
}

// lookPath looks for the program in PATH, as the command sees it. As a shell does, it exits
// with 127 if there is none.
func lookPath(program string) string {
	if contains(program, '/') {
		return program
	}
	path, _ := syscall.Getenv("PATH")
	for path != "" && program != "" {
		var dir string
		dir, path = cut(path, ':')
		var stat syscall.Stat_t
		file := dir + "/" + program
		if dir != "" && syscall.Stat(file, &stat) == nil && stat.Mode&syscall.S_IFMT == syscall.S_IFREG && stat.Mode&0o111 != 0 {
			return file
		}
	}
	complain(program, syscall.ENOENT)
	syscall.Exit(127)
	return ""
}

func must(step string, err error) {
	if err != nil {
		fail(step, err)
	}
}

func fail(step string, err error) {
	complain("sandbox: failed to "+step, err)
	syscall.Exit(ExitFailed)
}

func complain(what string, err error) {
	_, _ = syscall.Write(2, []byte(what+": "+err.Error()+"\n"))
}

// arguments returns the arguments of this process. Package os does not have them yet.
func arguments() []string {
	text, err := readFile("/proc/self/cmdline")
	must("read the arguments", err)
	var argv []string
	for text != "" {
		var arg string
		arg, text = cut(text, 0)
		argv = append(argv, arg)
	}
	return argv[min(len(argv), 1):] // the first is the name of this program
}

func readFile(path string) (string, error) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer syscall.Close(fd)
	var text []byte
	buf := make([]byte, 64<<10)
	for {
		n, err := syscall.Read(fd, buf)
		if n <= 0 || err != nil {
			return string(text), err
		}
		text = append(text, buf[:n]...)
	}
}

func contains(s string, c byte) bool {
	before, _ := cut(s, c)
	return len(before) < len(s)
}

// Constants that package syscall does not have.
const (
	prSetPdeathsig      = 1
	prSetSeccomp        = 22
	prSetChildSubreaper = 36
	prSetNoNewPrivs     = 38
	seccompFilter       = 2
)

func prctl(option, a, b uintptr) error {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, option, a, b, 0, 0, 0)
	return errnoErr(errno)
}

func errnoErr(errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

// closeFiles has the command inherit only the three standard streams, also if the worker itself
// inherited other files.
func closeFiles() error {
	const cloexec = 4 // CLOSE_RANGE_CLOEXEC (Linux 5.11)
	_, _, errno := syscall.RawSyscall(sysCloseRange, 3, 1<<32-1, cloexec)
	if errno == syscall.ENOSYS || errno == syscall.EINVAL {
		return nil
	}
	return errnoErr(errno)
}

// setLimit sets a limit, but never raises a lower hard limit.
func setLimit(l Limit) error {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(int(l.Resource), &now); err != nil {
		return err
	}
	value := min(l.Value, now.Max)
	hard := value
	if l.Resource == syscall.RLIMIT_CPU { // the signal SIGXCPU names the reason; SIGKILL follows
		hard = min(value+1, now.Max)
	}
	return syscall.Setrlimit(int(l.Resource), &syscall.Rlimit{Cur: value, Max: hard})
}

// loopback sets IFF_UP of the interface lo.
func loopback() error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	var request struct { // struct ifreq
		name  [16]byte
		flags uint16
		_     [22]byte
	}
	copy(request.name[:], "lo")
	request.flags = syscall.IFF_UP | syscall.IFF_RUNNING
	_, _, errno := syscall.RawSyscall(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request)))
	return errnoErr(errno)
}

// dropCapabilities empties all sets. With no_new_privs, executing a program as root gives
// none back.
func dropCapabilities() error {
	header := struct {
		version uint32
		pid     int32
	}{version: 0x20080522} // _LINUX_CAPABILITY_VERSION_3
	var data [2]struct{ effective, permitted, inheritable uint32 }
	_, _, errno := syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data)), 0)
	return errnoErr(errno)
}

func seccomp(filter string) error {
	program := []byte(filter)
	fprog := struct {
		len    uint16
		filter *byte
	}{uint16(len(program) / 8), &program[0]}
	return prctl(prSetSeccomp, seccompFilter, uintptr(unsafe.Pointer(&fprog)))
}
