package outbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// Check collects what is wrong with a payload. Generated Validate methods use it.
// No message of it holds a value.
type Check struct {
	path     []string
	problems []string
}

// Err returns all problems as one error, or nil.
func (c *Check) Err() error {
	if len(c.problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(c.problems, "; "))
}

// Fail notes a problem of a field.
func (c *Check) Fail(field, problem string) {
	c.problems = append(c.problems, strings.Join(append(c.path[:len(c.path):len(c.path)], field), ".")+": "+problem)
}

// In runs check for the fields of a nested value.
func (c *Check) In(field string, check func(*Check)) {
	c.path = append(c.path, field)
	check(c)
	c.path = c.path[:len(c.path)-1]
}

// At names an element of a list.
func At(field string, index int) string { return fmt.Sprintf("%s[%d]", field, index) }

// AtKey names a value of a map. The key itself may be private and isn't shown.
func AtKey(field string) string { return field + "[…]" }

// String requires UTF-8: encoding/json would replace anything else without a word.
func (c *Check) String(field, value string) {
	if !utf8.ValidString(value) {
		c.Fail(field, "not UTF-8")
	}
}

// Float requires a finite number; JSON has no other. A negative zero would come
// back from MySQL's JSON column as a positive one.
func (c *Check) Float(field string, value float64) {
	switch {
	case math.IsNaN(value) || math.IsInf(value, 0):
		c.Fail(field, "not a finite number")
	case value == 0 && math.Signbit(value):
		c.Fail(field, "negative zero")
	}
}

// Enum requires that the value is one of those declared.
func (c *Check) Enum(field string, valid bool) {
	if !valid {
		c.Fail(field, "not one of the declared values")
	}
}

// JSON requires a document that a JSON column gives back as it was.
func (c *Check) JSON(field string, value json.RawMessage) {
	if err := CheckJSON(value); err != nil {
		c.Fail(field, err.Error())
	}
}

// Value asks a value that can validate itself.
func (c *Check) Value(field string, value any) {
	v, ok := value.(Payload)
	if !ok {
		return
	}
	var form formError
	switch err := v.Validate(); {
	case errors.As(err, &form):
		c.Fail(field, form.Error())
	case err != nil: // a type of somebody else's may quote the value
		c.Fail(field, fmt.Sprintf("not a valid %T", value))
	}
}

// Missing collects required keys that a decoded object lacks.
type Missing struct{ names []string }

// Required returns *v, or notes that the key is missing. null counts as missing.
func Required[T any](m *Missing, name string, v *T) T {
	if v == nil {
		m.names = append(m.names, name)
		var zero T
		return zero
	}
	return *v
}

// Err returns a *MissingFieldsError when keys were missing.
func (m *Missing) Err() error {
	if len(m.names) == 0 {
		return nil
	}
	return &MissingFieldsError{Fields: m.names}
}

// MissingFieldsError says which required keys a payload lacks.
type MissingFieldsError struct{ Fields []string }

func (e *MissingFieldsError) Error() string {
	return "required fields are missing: " + strings.Join(e.Fields, ", ")
}

// DecodePayload decodes a payload. Its errors name fields and JSON types, never values.
func DecodePayload[T any](data []byte) (T, error) {
	var payload T
	err := json.Unmarshal(data, &payload)
	if err == nil {
		return payload, nil
	}
	var zero T
	return zero, fmt.Errorf("decode payload: %w", withoutValues(err))
}

// withoutValues lets through what is known to hold no value. A type of somebody
// else's may quote what it could not read.
func withoutValues(err error) error {
	var (
		typeErr    *json.UnmarshalTypeError
		syntaxErr  *json.SyntaxError
		missingErr *MissingFieldsError
		formErr    formError
	)
	switch {
	case errors.As(err, &typeErr):
		found, _, _ := strings.Cut(typeErr.Value, " ") // "number 12" → "number"
		return fmt.Errorf("field %q: a JSON %s does not fit", typeErr.Field, found)
	case errors.As(err, &syntaxErr):
		return fmt.Errorf("not JSON, at byte %d", syntaxErr.Offset)
	case errors.As(err, &missingErr):
		return missingErr
	case errors.As(err, &formErr):
		return formErr
	default:
		return fmt.Errorf("a value does not fit its type (%T)", err)
	}
}

// formError says that a value hasn't the form of its type, without the value.
type formError string

func (e formError) Error() string { return string(e) }

// UnknownSchemaVersion is the error for a schema version that this build can't decode.
func UnknownSchemaVersion(eventType string, version int) error {
	return fmt.Errorf("%w: %s has schema version %d, unknown to this build", ErrNotHandled, eventType, version)
}
