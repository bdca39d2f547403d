package flush

import "os"

// stamp identifies one state of a file. nats-server changes a block only by appending,
// which changes its size.
type stamp struct {
	inode uint64
	size  int64
	mtime int64 // nanoseconds since 1970
}

func stampOf(info os.FileInfo) stamp {
	return stamp{inode: inode(info), size: info.Size(), mtime: info.ModTime().UnixNano()}
}
