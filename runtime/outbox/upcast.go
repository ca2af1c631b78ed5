package outbox

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Upcast makes the next version of a payload by code of the user's, which gets the
// payload as it was sent and the next version as far as it could be made without. Generated
// decoders use it. An error, a panic, and a result that Validate refuses become an error
// that names the step: the event is parked with it, since a repeat would end the same.
func Upcast[Old any, New Payload](
	eventType string, from, to int, old Old, prefilled New, method func(Old, New) (New, error),
) (New, error) {
	var made, none New
	err := guarded(func() (err error) {
		if made, err = method(old, prefilled); err != nil {
			return err
		}
		if err := made.Validate(); err != nil {
			return fmt.Errorf("the result is not valid: %w", err)
		}
		return nil
	})
	if err != nil {
		return none, fmt.Errorf("upcast %s from version %d to %d: %w", eventType, from, to, err)
	}
	return made, nil
}

// Defaults collects the defaults of events.yaml that their types can't read.
type Defaults struct{ problems []string }

// Default is the default of a field whose Go type is the user's: only the type itself can
// read it. Of one that it can't read a note is made.
func Default[T any](d *Defaults, field, encoded string) T {
	var value T
	if err := json.Unmarshal([]byte(encoded), &value); err != nil {
		d.problems = append(d.problems, fmt.Sprintf("the default of %s: %v", field, withoutValues(err)))
	}
	return value
}

// Err returns all problems as one error, or nil.
func (d *Defaults) Err() error {
	if len(d.problems) == 0 {
		return nil
	}
	return fmt.Errorf("upcast: %s", strings.Join(d.problems, "; "))
}
