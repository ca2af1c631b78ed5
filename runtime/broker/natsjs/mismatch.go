package natsjs

import (
	"fmt"
	"strings"
)

// Difference is a setting at the broker that isn't as it has to be.
type Difference struct {
	Thing   string // such as "stream ORDERS"
	Setting string // such as "subjects"
	Have    string
	Want    string
}

func (d Difference) String() string {
	return fmt.Sprintf("%s: %s: have %s, want %s", d.Thing, d.Setting, d.Have, d.Want)
}

// MismatchError lists all that differs. Nothing of it was changed.
type MismatchError struct {
	Differences []Difference
}

func (e *MismatchError) Error() string {
	texts := make([]string, len(e.Differences))
	for i, d := range e.Differences {
		texts[i] = d.String()
	}
	return strings.Join(texts, "; ")
}

// differences collects those of one thing.
type differences struct {
	thing string
	all   []Difference
}

func (d *differences) add(setting string, have, want any) {
	d.all = append(d.all, Difference{Thing: d.thing, Setting: setting, Have: fmt.Sprint(have), Want: fmt.Sprint(want)})
}
