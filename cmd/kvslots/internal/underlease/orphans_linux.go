package underlease

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// adoptOrphans makes this process the parent of what the command leaves behind, as it is anyway of all orphans
// if it is the first process of a container. ended receives when one may have to be reaped: in a group an
// ended process counts until then.
func adoptOrphans() (ended chan os.Signal) {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	ended = make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	return ended
}

// reapOrphans waits for adopted processes that have ended. Others wait for those in except.
func reapOrphans(except ...int) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		// si_pid is after three numbers, in the words of the machine.
		pid := int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), 8+unsafe.Sizeof(uintptr(0)))))
		if err != nil || pid == 0 || slices.Contains(except, pid) {
			return
		}
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
	}
}

// isStopped reports whether a child has been stopped since the last call.
func isStopped(pid int) bool {
	var info unix.Siginfo
	return unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG, nil) == nil && info.Signo != 0
}

// descendants returns the processes below this one that are in its process group and have not ended.
func descendants() (found []int) {
	type process struct{ parent, group int }
	all, own := map[int]process{}, unix.Getpid()
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		stat, _ := os.ReadFile(path) // without it the process has ended
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		var state rune
		var p process
		_, rest, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
		if _, err := fmt.Sscanf(string(rest), "%c %d %d", &state, &p.parent, &p.group); err == nil {
			all[pid] = p
			if state != 'Z' && p.group == unix.Getpgrp() && pid != own {
				found = append(found, pid)
			}
		}
	}
	return slices.DeleteFunc(found, func(pid int) bool {
		for pid > 1 && pid != own {
			pid = all[pid].parent
		}
		return pid != own
	})
}
