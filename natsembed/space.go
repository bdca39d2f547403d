package natsembed

import "fmt"

const (
	// mostReserve is the free space in bytes below which a disk counts as nearly full.
	// The reserve is for writes that end leases: each return writes a record.
	mostReserve = 64 << 20

	// leastReserve is the reserve of a small disk, in bytes.
	leastReserve = 1 << 20

	// reserveShare is the divisor of the disk's size that gives the reserve, between
	// leastReserve and mostReserve.
	reserveShare = 16
)

// room is how much space the store has for new entries, in bytes.
type room struct {
	free, size uint64 // of the disk; free is what this process may use
	used       uint64 // by the streams
	limit      uint64 // Config.MaxStore; 0: the disk is the limit
}

func (r room) reserve() uint64 { return max(leastReserve, min(mostReserve, r.size/reserveShare)) }

// lack returns nil if there is room for new entries, and otherwise the reason. A store
// that lacked room needs more of it, so that the answer does not change with each write.
func (r room) lack(lacked bool) error {
	need, limit := r.reserve(), r.limit
	if lacked {
		need, limit = need+need/4, limit-limit/64
	}
	switch {
	case r.free < need:
		return fmt.Errorf("the disk of the data directory is nearly full: %s are free, new entries need %s: free some space",
			mebibytes(r.free), mebibytes(need))
	case limit > 0 && r.used >= limit:
		return fmt.Errorf("the store is full: it holds %s of %s, and must hold less than %s for new entries: raise its limit (MaxStore)",
			mebibytes(r.used), mebibytes(r.limit), mebibytes(limit))
	}
	return nil
}

func mebibytes(n uint64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// Room returns nil while the store has room for new entries. Otherwise it returns an error
// with the reason and what to do: the disk is nearly full, the entries take
// Config.MaxStore, or the server waits to be restarted after a failed write. A service
// should then refuse new leases and pools, to leave room for the records that end leases.
// The answer is at most about a second old.
func (s *Server) Room() error {
	if lack := s.lack.Load(); lack != nil {
		return *lack
	}
	return nil
}

// measure updates the answer of Room.
func (s *Server) measure() {
	_ = s.Lack()
	s.measureCopies()
	r := room{limit: uint64(s.cfg.MaxStore)}
	var err error
	if r.free, r.size, err = diskSpace(s.dir.path); err != nil {
		s.setRoom(fmt.Errorf("the disk of the data directory cannot be examined: %w", err))
		return
	}
	if r.limit > 0 {
		if info, err := s.nats().Jsz(nil); err == nil {
			r.used = info.Store
		}
	}
	s.setRoom(r.lack(s.Room() != nil))
}

// Space measures the disk of the data directory: how many bytes the entries of the streams take,
// how many this process may still use, and the size of the disk.
func (s *Server) Space() (store, free, disk uint64, err error) {
	if free, disk, err = diskSpace(s.dir.path); err != nil {
		return 0, 0, 0, err
	}
	info, err := s.nats().Jsz(nil)
	if err != nil {
		return 0, 0, 0, err
	}
	return info.Store, free, disk, nil
}

func (s *Server) setRoom(lack error) { s.lack.Store(&lack) }
