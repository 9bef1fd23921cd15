package enter

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// init runs the command of a re-executed process. It does nothing in other processes.
func init() {
	encoded, ok := os.LookupEnv(variable)
	if !ok {
		return
	}
	_ = os.Unsetenv(variable)
	for n := 1; ; n++ {
		more, ok := os.LookupEnv(part(n))
		if !ok {
			break
		}
		encoded += more
		_ = os.Unsetenv(part(n))
	}
	s := new(Spec)
	must("read "+variable, json.Unmarshal([]byte(encoded), s))
	confine(s)
	argv := os.Args[1:]
	if len(argv) == 0 { // a test of the kernel; os.Exit sleeps for a second under the race detector
		syscall.Exit(0)
	}
	program := argv[0]
	if !strings.Contains(program, "/") {
		var err error
		if program, err = exec.LookPath(program); err != nil {
			failed(argv[0], syscall.ENOENT)
		}
	}
	if s.First || s.Reap {
		supervise(program, argv, s.Reap)
	}
	failed(argv[0], syscall.Exec(program, argv, os.Environ()))
}

// failed ends this process as a shell does that cannot execute a program.
func failed(program string, err error) {
	fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
	if errors.Is(err, syscall.ENOENT) {
		syscall.Exit(127)
	}
	syscall.Exit(126)
}

func must(step string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "sandbox: failed to %s: %v\n", step, err)
		syscall.Exit(exitFailed)
	}
}

// confine takes the rights of this thread away, one after the other. Init functions run
// on the main thread, which also starts the command. If this process stays beside the command,
// its other threads keep their rights, so it is not dumpable: the command cannot trace it.
func confine(s *Spec) {
	if s.MapUser {
		mapUser(s)
	}
	if s.Loopback {
		must("start the loopback interface", loopback())
	}
	if s.DieWithParent && !s.Reap { // a reaper outlives the worker to kill the command
		must("die with the worker", prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL)))
	}
	for _, l := range s.Limits {
		must("set a resource limit", setLimit(l))
	}
	if s.Mounts {
		mounts(s)
	}
	must("enter the working directory", unix.Chdir(s.Dir))
	if s.Unconfined {
		must("drop what the namespace gave", prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL))
		return
	}
	must("close the files of the worker", closeFiles())
	must("set no_new_privs", prctl(unix.PR_SET_NO_NEW_PRIVS, 1))
	must("clear dumpable", prctl(unix.PR_SET_DUMPABLE, 0))
	must("drop capabilities", dropCapabilities())
	if s.Landlock > 0 {
		landlock(s)
	}
	if len(s.Filter) > 0 {
		program := unix.SockFprog{Len: uint16(len(s.Filter)), Filter: (*unix.SockFilter)(unsafe.Pointer(&s.Filter[0]))}
		must("install the seccomp filter", prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program))))
	}
}

func prctl(option int, args ...uintptr) error {
	args = append(args, 0, 0)
	return unix.Prctl(option, args[0], args[1], 0, 0)
}

// mapUser gives this process its own user and group in its new user namespace. The process
// that started it could do that, too, but would have to copy its memory for that (fork): the
// child could not share it until the parent had written the maps.
func mapUser(s *Spec) {
	must("refuse setgroups", writeFile("/proc/self/setgroups", "deny"))
	must("map the user", writeFile("/proc/self/uid_map", fmt.Sprintf("%d %d 1", s.User, s.User)))
	must("map the group", writeFile("/proc/self/gid_map", fmt.Sprintf("%d %d 1", s.Group, s.Group)))
}

// writeFile writes a setting of the kernel.
func writeFile(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

// closeFiles has the command inherit only the three standard streams, also if the worker itself
// inherited other files.
func closeFiles() error {
	err := unix.CloseRange(3, 1<<32-1, unix.CLOSE_RANGE_CLOEXEC) // Linux 5.11
	if err == unix.ENOSYS || err == unix.EINVAL {
		return nil
	}
	return err
}

// setLimit sets a limit, but never raises a lower hard limit.
func setLimit(l Limit) error {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(l.Resource, &now); err != nil {
		return err
	}
	value := min(l.Value, now.Max)
	hard := value
	if l.Resource == syscall.RLIMIT_CPU { // the signal SIGXCPU names the reason; SIGKILL follows
		hard = min(value+1, now.Max)
	}
	return syscall.Setrlimit(l.Resource, &syscall.Rlimit{Cur: value, Max: hard})
}

// loopback sets IFF_UP of the interface lo.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

// dropCapabilities empties all sets. With no_new_privs, executing a program as root gives
// none back.
func dropCapabilities() error {
	var none [2]unix.CapUserData
	return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0])
}
