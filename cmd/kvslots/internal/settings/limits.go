package settings

const (
	// filesReserve is how many files are kept for the store, NATS and logs.
	filesReserve = 256

	// unknownFilesLimit stands for the limit of open files where that is unknown.
	unknownFilesLimit = 1 << 14

	// maxConnectionsByFiles bounds the default where the number of files does not: a
	// connection takes some 20 kB of memory.
	maxConnectionsByFiles = 1 << 17
)

// connectionsFor returns how many connections a process may accept that may open so many
// files. The store fails when it cannot open a file, so connections take half of what is
// left beside a reserve; the other half is for NATS clients.
func connectionsFor(files uint64) int {
	reserve := min(filesReserve, files/2)
	return int(min((files-reserve)/2, maxConnectionsByFiles))
}
