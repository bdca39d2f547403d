package flush

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// The Flusher relies on undocumented behaviour of nats-server, which these lines show.
// If an upgrade changes a line, read the function again, and run the power cut test
// with make soak before changing this test.
func TestFilestoreBehavesAsTheFlusherRequires(t *testing.T) {
	pins := []struct{ why, in, text string }{
		{"a write is in the block file when it is acknowledged",
			"func (mb *msgBlock) writeMsgRecordLocked(", "mb.flushPendingMsgsLocked()"},
		{"only replicated or asynchronous streams flush to the file later",
			"func newFileStore", "fs.fip = !fcfg.AsyncFlush"},
		{"a block is only appended to",
			"func (mb *msgBlock) flushPendingMsgsLocked(", "wp := int64(mb.cache.wp)"},
		{"the last block is never rewritten when a record is removed",
			"func (fs *fileStore) removeMsg", "if !isLastBlock && mb.shouldCompactInline() {"},
		{"the last block is never rewritten in the background",
			"func (fs *fileStore) syncBlocks(", "if mb != lmb && mb.ensureRawBytesLoaded() == nil && mb.shouldCompactSync() {"},
		{"a rewritten block is another file, renamed into place",
			"func (mb *msgBlock) compactWithFloor(", "writeAtomicallyWithTemp(mb.fs.dios, mfn, mb.mfn, nbuf, defaultFilePerms, sync)"},
		{"so is an overwritten one",
			"func (mb *msgBlock) atomicOverwriteFile(", "os.Rename(tmpFN, origFN)"},
		{"a removed block is unlinked, and not emptied",
			"func (mb *msgBlock) dirtyCloseWithRemove(", "os.Remove(mb.mfn)"},
		{"a tombstone is in the last block when the record is removed",
			"func (fs *fileStore) removeMsgFromBlock(", "lmb.writeTombstone(seq, ts)"},
		{"a missing index is rebuilt from the blocks",
			"func (fs *fileStore) recoverMsgs(", "for _, index := range indices {"},
		{"a torn tail is cut off",
			"func (mb *msgBlock) rebuildStateFromBufLocked(", "fd.Truncate(int64(index))"},
		{"a block without records is empty on the disk",
			"func (mb *msgBlock) rebuildStateFromBufLocked(", "if err = fd.Sync(); err != nil {"},
		{"a start removes such a block, and no other one, without a successor",
			"func (fs *fileStore) recoverMsgs(", "if atomic.LoadUint64(&mb.first.seq) == 0 {"},
		{"the first flush of a stream comes no sooner than a minute after its start",
			"func (fs *fileStore) setSyncTimer(", "start := (fs.fcfg.SyncInterval / 2)"},
		{"the meta file is replaced as a whole, so that its inode changes",
			"func (fs *fileStore) writeStreamMeta(", "fs.writeFileWithOptionalSync(meta, b, defaultFilePerms)"},
		{"meta.sum is written after meta.inf",
			"func (fs *fileStore) writeStreamMeta(", "fs.writeFileWithOptionalSync(sum, []byte(checksum), defaultFilePerms)"},
		{"a deletion begins with the removal of meta.inf",
			"func (fs *fileStore) Delete(", "os.Remove(filepath.Join(fs.fcfg.StoreDir, JetStreamMetaFile))"},
		{"a new stream has at most a tombstone before it has meta.inf",
			"func (mb *msgBlock) writeTombstone(", "mb.writeMsgRecord(emptyRecordLen, seq|tbit"},
		{"a flush that fails is reported",
			"func (fs *fileStore) syncBlocks(", "storeFsWerr(err)"},
		{"an error is reported before it is returned",
			"func (fs *fileStore) setWriteErr(", `fs.error("Critical write error: %v", err)`},
		{"a report's format ends with that of the line",
			"func (fs *fileStore) error(", `fs.srv.Errorf(fmt.Sprintf("Filestore [%s] %s", fs.cfg.Name, format), args...)`},
		{"a stop flushes no block, since it would ignore the error",
			"func (fs *fileStore) stop(", "fs.closeAllMsgBlocks(false)"},
	}
	source := serverSource(t, "filestore.go")
	for _, pin := range pins {
		if !strings.Contains(functions(source, pin.in), pin.text) {
			t.Errorf("nats-server %s: %q no longer contains %q; the Flusher requires: %s", server.VERSION, pin.in, pin.text, pin.why)
		}
	}
	for name, text := range map[string]string{
		"blkScan": `blkScan = "%d.blk"`, "msgDir": `msgDir = "msgs"`, "index.db": `streamStreamStateFile = "index.db"`,
		"thw.db": `ttlStreamStateFile = "thw.db"`,
	} {
		if !strings.Contains(source, text) {
			t.Errorf("nats-server %s: %s is not %s any more", server.VERSION, name, text)
		}
	}
	if line := functions(serverSource(t, "stream.go"), "func (mset *stream) setWriteErrLocked("); !strings.Contains(line, `critical write error: %v", mset.acc.Name, mset.cfg.Name, err)`) {
		t.Errorf("nats-server %s: a stream no longer reports write errors", server.VERSION)
	}
}

// serverSource reads a file of the nats-server that go.mod names.
func serverSource(t *testing.T, name string) string {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "github.com/nats-io/nats-server/v2/server").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), name))
	kvslotstest.Must(t, err)
	return string(data)
}

// functions returns the functions whose first lines begin so.
func functions(source, begin string) string {
	var found strings.Builder
	for _, f := range regexp.MustCompile(`(?ms)^func .*?^}`).FindAllString(source, -1) {
		if strings.HasPrefix(f, begin) {
			found.WriteString(f)
		}
	}
	return found.String()
}
