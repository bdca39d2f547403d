package natsembed

import "os"

// stamp tells one state of a file from another: each append changes the size, and
// nats-server changes a block in no other way.
type stamp struct {
	inode uint64
	size  int64
	mtime int64 // nanoseconds since 1970
}

func stampOf(info os.FileInfo) stamp {
	return stamp{inode: inode(info), size: info.Size(), mtime: info.ModTime().UnixNano()}
}
