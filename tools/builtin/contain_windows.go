package builtin

import (
	"errors"
	"fmt"
	"os/exec"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/stevedore-bus/stevedore/tools/sandbox"
)

// container runs a command in a job object, which ends with the command and with the
// worker: no process of the command survives either. This code is built and
// vetted for Windows, but not tested there.
type container struct{}

func newContainer() container { return container{} }

func containerIn(*sandbox.Sandbox) container { return container{} }

func (container) reaps() bool { return false }

func (container) wrap(argv []string) []string { return argv }

// prepare has the command start suspended, so that it cannot start another process
// before it is in the job.
func (container) prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_SUSPENDED}
}

// run starts cmd, calls started, waits for the end of cmd, terminates the rest of its
// job, and reports whether the command was killed because its context ended.
func (container) run(cmd *exec.Cmd, started func()) (killed bool, err error) {
	job, err := newJob()
	if err != nil {
		return false, err
	}
	defer windows.CloseHandle(job)
	var cancelled atomic.Bool
	if cmd.Cancel != nil { // made with a context
		cmd.Cancel = func() error {
			cancelled.Store(true)
			return windows.TerminateJobObject(job, 1)
		}
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	started()
	pid := uint32(cmd.Process.Pid)
	if err := errors.Join(assign(job, pid), resume(pid)); err != nil {
		err = errors.Join(err, cmd.Process.Kill())
		_, waitErr := cmd.Process.Wait() // cmd.Wait would make it look as if the command had run
		return false, errors.Join(err, waitErr)
	}
	err = cmd.Wait()
	return cancelled.Load(), errors.Join(err, windows.TerminateJobObject(job, 1))
}

// newJob returns a job whose processes Windows terminates when its last handle, that
// of the worker, is closed.
func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, fmt.Errorf("create job object: %w", err)
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{
		LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
	}}
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err != nil {
		return 0, errors.Join(fmt.Errorf("configure job object: %w", err), windows.CloseHandle(job))
	}
	return job, nil
}

func assign(job windows.Handle, pid uint32) error {
	process, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, pid)
	if err != nil {
		return fmt.Errorf("open process: %w", err)
	}
	defer windows.CloseHandle(process)
	if err := windows.AssignProcessToJobObject(job, process); err != nil {
		return fmt.Errorf("assign process to job object: %w", err)
	}
	return nil
}

// resume resumes the only thread of a process that was started suspended. Package
// os/exec does not return the handle of that thread.
func resume(pid uint32) error {
	snapshot, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return fmt.Errorf("list threads: %w", err)
	}
	defer windows.CloseHandle(snapshot)
	entry := windows.ThreadEntry32{Size: uint32(unsafe.Sizeof(windows.ThreadEntry32{}))}
	for err = windows.Thread32First(snapshot, &entry); err == nil; err = windows.Thread32Next(snapshot, &entry) {
		if entry.OwnerProcessID != pid {
			continue
		}
		thread, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, entry.ThreadID)
		if err != nil {
			return fmt.Errorf("open thread: %w", err)
		}
		_, err = windows.ResumeThread(thread)
		return errors.Join(err, windows.CloseHandle(thread))
	}
	return fmt.Errorf("find the thread of process %d: %w", pid, err)
}
