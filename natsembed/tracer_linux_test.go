package natsembed

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// changing are the system calls that change files.
var changing = map[uint64]bool{
	unix.SYS_OPENAT: true, unix.SYS_WRITE: true, unix.SYS_PWRITE64: true, unix.SYS_FTRUNCATE: true, unix.SYS_MKDIRAT: true,
	unix.SYS_RENAMEAT: true, unix.SYS_RENAMEAT2: true, unix.SYS_UNLINKAT: true, unix.SYS_LINKAT: true,
}

// syscallInfo is the beginning of the kernel's ptrace_syscall_info.
type syscallInfo struct {
	op     uint8 // 1: before a call, 2: after it
	_      [23]byte
	number uint64 // before a call
	_      [64]byte
}

const getSyscallInfo = 0x420e // PTRACE_GET_SYSCALL_INFO

// trace runs this test binary with an environment, and calls after each time when one of
// its threads has made a system call that changes files. Until after returns, no other thread
// begins a system call. trace returns whether the process succeeded.
func trace(t *testing.T, env []string, after func()) bool {
	t.Helper()
	runtime.LockOSThread() // only the thread that traces a process may do so
	defer runtime.UnlockOSThread()
	c := exec.Command(os.Args[0])
	c.Env, c.Stdout, c.Stderr = append(os.Environ(), env...), os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := c.Start(); err != nil {
		t.Skipf("no process can be traced here: %v", err)
	}
	defer func() { _ = c.Process.Release() }()
	pid := c.Process.Pid
	var status unix.WaitStatus
	_, err := unix.Wait4(pid, &status, 0, nil)
	if err == nil {
		err = unix.PtraceSetOptions(pid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_EXITKILL)
	}
	if err == nil {
		err = unix.PtraceSyscall(pid, 0)
	}
	if err != nil {
		_ = c.Process.Kill()
		t.Skipf("no process can be traced here: %v", err)
	}
	calls := map[int]uint64{} // by thread
	for {
		thread, err := unix.Wait4(-1, &status, unix.WALL, nil)
		if err == unix.EINTR {
			continue
		}
		kvslotstest.Must(t, err)
		if status.Exited() || status.Signaled() {
			if thread == pid {
				return status.Exited() && status.ExitStatus() == 0
			}
			continue
		}
		signal := 0
		switch stop := status.StopSignal(); stop {
		case unix.SIGTRAP | 0x80:
			var info syscallInfo
			_, _, failed := unix.Syscall6(unix.SYS_PTRACE, getSyscallInfo, uintptr(thread), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
			switch {
			case failed != 0:
			case info.op == 1:
				calls[thread] = info.number
			case info.op == 2 && changing[calls[thread]]:
				after()
			}
		case unix.SIGTRAP, unix.SIGSTOP: // a new thread
		default:
			signal = int(stop)
		}
		_ = unix.PtraceSyscall(thread, signal) // the thread may have been killed
	}
}
