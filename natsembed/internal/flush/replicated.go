package flush

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/minio/highwayhash"
)

// A stream with several copies is flushed by nats-server: its raft log before each acknowledgement, its blocks before a
// snapshot of the log, after which the log is cut. It removes a block as soon as the records that supersede its own are
// written, and flushes these up to 30 s later. After a power cut the store may therefore end before the snapshot's last
// sequence. nats-server then waits for a leader that has what is missing, and no node may lead: all data is there, and the
// stream is dead. What is missing is superseded, so a tombstone at that sequence is true, and the log has the rest.
//
// To be removed when nats-server flushes the last block before it removes one.

const (
	groupDirs = "$SYS/_js_/S-*"

	leastSnapshot = 28 // bytes: term, index, length of the peers' state, checksum
	blockHeader   = 22 // bytes: length, sequence, time, length of the subject
	hashSize      = 8

	tombstoneBit = 1 << 62
	headersBit   = 1 << 31 // of a record's length
	eraseBit     = 1 << 63 // of a sequence
)

// MendReplicated appends the tombstone if the newest snapshot of a stream's log ends behind its blocks, and nothing is
// wrong with these: a block with a wrong record is damaged, and the other copies have what it should contain. It does
// nothing if there is more than one log, since it cannot know which is the stream's.
func (d *Dir) MendReplicated() error {
	names, err := d.Streams()
	if err != nil || len(names) != 1 {
		return err
	}
	logs, err := filepath.Glob(filepath.Join(d.store, groupDirs))
	if err != nil || len(logs) != 1 {
		return err
	}
	last, ok, err := lastOfSnapshot(logs[0])
	if err != nil || !ok {
		return err
	}
	msgs := filepath.Join(d.streams, names[0], msgsDir)
	end, block, sound, err := endOfBlocks(msgs)
	if err != nil || !sound || end >= last {
		return err
	}
	path := filepath.Join(msgs, fmt.Sprintf("%d.blk", block+1))
	if err := d.sync.write(path, tombstone(names[0], block+1, last)); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// lastOfSnapshot returns the last sequence of the stream in the newest snapshot of its log. ok is false without a valid one.
func lastOfSnapshot(group string) (last uint64, ok bool, err error) {
	names, err := filepath.Glob(filepath.Join(group, "snapshots", "snap.*"))
	if err != nil {
		return 0, false, err
	}
	var term, index uint64
	for _, name := range names {
		var t, i uint64
		if _, err := fmt.Sscanf(filepath.Base(name), "snap.%d.%d", &t, &i); err != nil || ok && (t < term || t == term && i < index) {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return 0, false, err
		}
		if of, valid := parseSnapshot(filepath.Base(group), data); valid {
			last, term, index, ok = of, t, i, true
		}
	}
	return last, ok, nil
}

// parseSnapshot returns the last sequence of the stream in a snapshot: a magic number, a version, and the variable-length
// numbers of messages, of bytes, of the first and of the last sequence.
func parseSnapshot(group string, data []byte) (last uint64, ok bool) {
	if len(data) < leastSnapshot || !bytes.Equal(data[len(data)-hashSize:], hashOf(group, data[:len(data)-hashSize])) {
		return 0, false
	}
	peers := binary.LittleEndian.Uint32(data[16:])
	state := data[20 : len(data)-hashSize]
	if uint64(peers)+2 > uint64(len(state)) {
		return 0, false
	}
	state = state[peers+2:]
	for range 4 {
		n := 0
		if last, n = binary.Uvarint(state); n <= 0 {
			return 0, false
		}
		state = state[n:]
	}
	return last, true
}

// endOfBlocks returns the highest sequence of the blocks, and the highest number of one. sound is false if a block has a
// wrong record. The last block may have been written without a flush: it may be empty, or begin with zeros.
func endOfBlocks(msgs string) (end uint64, block uint32, sound bool, err error) {
	names, err := listNames(msgs)
	if err != nil {
		return 0, 0, false, err
	}
	sound = true
	var unwritten []uint32
	for _, name := range names {
		var number uint32
		if _, err := fmt.Sscanf(name, "%d.blk", &number); err != nil || !isBlock(name) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(msgs, name))
		if err != nil {
			return 0, 0, false, err
		}
		block = max(block, number)
		if len(data) < 4 || binary.LittleEndian.Uint32(data) == 0 {
			unwritten = append(unwritten, number)
			continue
		}
		last, whole := endOfBlock(filepath.Base(filepath.Dir(msgs)), number, data)
		end, sound = max(end, last), sound && whole
	}
	for _, number := range unwritten {
		sound = sound && number == block
	}
	return end, block, sound, nil
}

func endOfBlock(stream string, number uint32, data []byte) (end uint64, whole bool) {
	key := blockKey(stream, number)
	for len(data) > 0 {
		if len(data) < blockHeader+hashSize {
			return end, false
		}
		length := int(binary.LittleEndian.Uint32(data) &^ headersBit)
		if length < blockHeader+hashSize || length > len(data) {
			return end, false
		}
		record := data[:length]
		if sum, ok := recordSum(key, record); !ok || !bytes.Equal(sum, record[length-hashSize:]) {
			return end, false
		}
		if sequence := binary.LittleEndian.Uint64(record[4:]) &^ (tombstoneBit | eraseBit); sequence > end {
			end = sequence
		}
		data = data[length:]
	}
	return end, true
}

// recordSum returns the checksum of a record, which covers the sequence, the time, the subject, the headers and the message.
func recordSum(key string, record []byte) (sum []byte, ok bool) {
	subject := int(binary.LittleEndian.Uint16(record[20:]))
	rest := blockHeader + subject
	if binary.LittleEndian.Uint32(record)&headersBit != 0 {
		rest += 4 // the length of the headers
	}
	end := len(record) - hashSize
	if rest > end {
		return nil, false
	}
	return hashOf(key, record[4:20], record[blockHeader:blockHeader+subject], record[rest:end]), true
}

// tombstone is a block with one record: the message of a sequence was deleted.
func tombstone(stream string, block uint32, sequence uint64) []byte {
	record := make([]byte, blockHeader, blockHeader+hashSize)
	binary.LittleEndian.PutUint32(record, blockHeader+hashSize)
	binary.LittleEndian.PutUint64(record[4:], sequence|tombstoneBit)
	binary.LittleEndian.PutUint64(record[12:], uint64(time.Now().UnixNano()))
	return append(record, hashOf(blockKey(stream, block), record[4:20])...)
}

func blockKey(stream string, number uint32) string { return fmt.Sprintf("%s-%d", stream, number) }

func hashOf(key string, parts ...[]byte) []byte {
	of := sha256.Sum256([]byte(key))
	hash, _ := highwayhash.New64(of[:]) // it fails only for other lengths of a key
	for _, part := range parts {
		_, _ = hash.Write(part)
	}
	return hash.Sum(nil)
}
