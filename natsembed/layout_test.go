package natsembed

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
)

// Names that nats-server and package flush give to files and directories.
const (
	streamsDir = "streams"
	msgsDir    = "msgs"
	keepDir    = "keep"
	cleanFile  = "clean"
	failedFile = "failed"
	lostDir    = "lost"
)

// streamsPath returns the directory of the streams.
func streamsPath(srv *Server) string {
	return filepath.Join(srv.dir.path, server.JetStreamStoreDir, bucketAccount, streamsDir)
}

// isBlock reports whether a name in msgs is a block's.
func isBlock(name string) bool { return strings.HasSuffix(name, ".blk") }

// link is a name in keepDir: block number, order, inode.
type link struct{ number, order, inode uint64 }

func (l link) block() string { return fmt.Sprintf("%d.blk", l.number) }

// parseLink parses the name of a link. ok is false for any other name.
func parseLink(name string) (l link, ok bool) {
	_, err := fmt.Sscanf(name, "%d.blk.%d.%d", &l.number, &l.order, &l.inode)
	return l, err == nil
}

// listLinks returns the links of a stream.
func listLinks(stream string) (links []link, err error) {
	names, err := listNames(filepath.Join(stream, keepDir))
	for _, name := range names {
		if l, ok := parseLink(name); ok {
			links = append(links, l)
		}
	}
	return links, err
}

// listNames returns the names in a directory.
func listNames(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, err
}
