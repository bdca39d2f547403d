package jsonhttp

import "golang.org/x/sys/unix"

// peerClosed reports whether the peer has ended its stream, even if data before the end
// is still unread.
func peerClosed(fd uintptr) bool {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n > 0 && poll[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
}

// receiveWindow returns the window that the peer has advertised last, in bytes. It is 0 if there is none, and before
// Linux 5.4.
func receiveWindow(fd uintptr) int {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0
	}
	return int(info.Snd_wnd)
}
