package kafka

import (
	"fmt"
	"strings"
)

// Difference is a setting at the broker that isn't as it has to be.
type Difference struct {
	Thing   string // such as "topic orders"
	Setting string
	Have    string
	Want    string
}

func (d Difference) String() string {
	return fmt.Sprintf("%s: %s: have %s, want %s", d.Thing, d.Setting, d.Have, d.Want)
}

// MismatchError names everything at the broker that has to be changed first.
type MismatchError struct{ Differences []Difference }

func (e *MismatchError) Error() string {
	all := make([]string, len(e.Differences))
	for i, d := range e.Differences {
		all[i] = d.String()
	}
	return "the broker isn't as the topology needs it: " + strings.Join(all, "; ")
}
