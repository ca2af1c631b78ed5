// Package schemadiff compares the tables that a database has with those that
// this version of the generator needs, and makes the statements that lead from one to
// the other. It reads information_schema only, and changes nothing.
package schemadiff

import "fmt"

// RefusedError says why there are no statements that would do.
type RefusedError struct{ Reason, Hint string }

func (e *RefusedError) Error() string { return e.Reason }

func refuse(hint, format string, args ...any) error {
	return &RefusedError{Reason: fmt.Sprintf(format, args...), Hint: hint}
}
