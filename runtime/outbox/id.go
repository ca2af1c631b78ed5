package outbox

import (
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// NewEventID returns a new event id, a UUIDv7 (RFC 9562, section 5.7). Make it
// before the business transaction and keep it for every retry: it is what tells
// a repeat from a second event.
//
// It panics when the operating system has no randomness, as Go's own crypto/rand does.
func NewEventID() uuid.UUID {
	return uuid.Must(uuid.NewV7())
}

// ErrNotEventID is returned for text that is not a UUID in its canonical form:
// 36 characters, lower case, with four hyphens.
var ErrNotEventID = errors.New("not an event id: want a UUID in canonical form")

// ParseEventID reads an event id in canonical form only. A message whose id has
// any other form is not one of ours: the forms that uuid.Parse would also take
// ("urn:uuid:…", braces, upper case) would make two dedup rows of one event.
func ParseEventID(s string) (uuid.UUID, error) {
	id, err := uuid.Parse(s)
	if err != nil || id.String() != s || id == uuid.Nil {
		return uuid.Nil, ErrNotEventID
	}
	return id, nil
}

func checkEventID(id uuid.UUID) error {
	if id == uuid.Nil {
		return fmt.Errorf("%w: it is empty; use NewEventID", ErrNotEventID)
	}
	return nil
}
