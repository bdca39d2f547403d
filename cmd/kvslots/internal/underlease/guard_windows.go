package underlease

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/windows"
)

// guard is a job object that kills the command, with all that it has started, when this process dies: the
// system closes its handle then. A nil guard does nothing.
type guard struct {
	job  windows.Handle
	once sync.Once
}

// startGuard returns nil if there is no job object.
func startGuard() *guard {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil
	}
	g := &guard{job: job}
	if g.limit(windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE) != nil {
		_ = windows.CloseHandle(job)
		return nil
	}
	return g
}

func (g *guard) limit(flags uint32) error {
	var info windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	info.BasicLimitInformation.LimitFlags = flags
	_, err := windows.SetInformationJobObject(g.job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	return err
}

func (g *guard) watch(c *child) {
	if g == nil {
		return
	}
	process, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(c.command.Process.Pid))
	if err != nil {
		return // it has ended
	}
	_ = windows.AssignProcessToJobObject(g.job, process)
	_ = windows.CloseHandle(process)
}

// stop lets what the command has left behind live.
func (g *guard) stop() {
	if g != nil {
		g.once.Do(func() {
			_ = g.limit(0)
			_ = windows.CloseHandle(g.job)
		})
	}
}
