package bucket

import "regexp"

// IDKey is the key in the metadata of the bucket's stream of its id, a random text by which clients notice
// that two gateways have two buckets. A restore keeps it.
const IDKey = "kvslots-store"

var idForm = regexp.MustCompile("^[A-Z2-7]{26}$") // of rand.Text

// IsID reports whether an id has the form of those that kvslots draws.
func IsID(id string) bool { return idForm.MatchString(id) }

// ID returns the bucket's id, as of the latest reading.
func (b *Bucket) ID() string { return *b.id.Load() }
