package jsonhttp

import "golang.org/x/sys/unix"

// peerClosed reports whether the peer has ended its stream, even if data before the end
// is still unread.
func peerClosed(fd uintptr) bool {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n > 0 && poll[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
}
