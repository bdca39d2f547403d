package wire

import "github.com/google/uuid"

// ParseID parses a UUID in its canonical form of 36 characters, in upper or lower
// case. The error is a *kvslots.RangeError that names the field.
func ParseID(field, text string) (uuid.UUID, error) {
	// uuid.Parse would also take a urn, braces, and 32 digits without dashes.
	if len(text) == 36 {
		if id, err := uuid.Parse(text); err == nil {
			return id, nil
		}
	}
	return uuid.UUID{}, rangeError(field, "a canonical UUID of 36 characters")
}
