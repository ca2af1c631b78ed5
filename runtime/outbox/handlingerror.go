package outbox

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
)

// HandlingError is why a consumer has not handled an event. Its text is fit for
// a log: of an error that came from the database's server it gives the number
// and the constraint, for the server's own words quote values (MySQL 1062, 1366),
// and of database/sql's scan errors the column. What a handler says in its own
// words is passed on. Unwrap gives the whole of it.
type HandlingError struct {
	Consumer string
	EventID  uuid.UUID
	Cause    error

	// Kind is FailureFailed when an attempt was counted, or would have been if the
	// server had not refused to write it down, FailureHeldBack when the event waits
	// for another transaction and none was, and FailureUnavailable when the
	// database can't be worked with, which is nobody's fault.
	Kind FailureKind

	// Attempts is how many attempts have been counted so far.
	Attempts int

	// Again is how long to wait before the event is delivered again. 0 and less leave it
	// to the subscriber.
	Again time.Duration

	text string
}

func (e *HandlingError) Error() string {
	if e.text == "" { // made elsewhere, as by a test's handler
		return fmt.Sprintf("consumer %s, event %s: %v", e.Consumer, e.EventID, e.Kind)
	}
	return e.text
}

func (e *HandlingError) Unwrap() error { return e.Cause }

// Redelivery is what a subscriber does about an error of a [Handler].
type Redelivery struct {
	// Pause says that the database can't be worked with: the subscriber keeps the
	// message, hands out no other, and tries this one again after growing waits.
	// When that has failed several times, it may try with another one.
	Pause bool

	// After is the wait before the message is delivered again, where the handler
	// knows one; 0 leaves it to the subscriber.
	After time.Duration
}

// RedeliveryOf says what a subscriber does about an error of a handler. An error
// that isn't a [HandlingError] is delivered again when the subscriber sees fit.
func RedeliveryOf(err error) Redelivery {
	var h *HandlingError
	if !errors.As(err, &h) {
		return Redelivery{}
	}
	return Redelivery{Pause: h.Kind == FailureUnavailable, After: max(h.Again, 0)}
}

// handlingKind is the kind of a [HandlingError], FailureUnknown of any other error.
func handlingKind(err error) FailureKind {
	var h *HandlingError
	if !errors.As(err, &h) {
		return FailureUnknown
	}
	return h.Kind
}

// Permanent marks a handler's error as one that no repeat can help: the event is
// parked at once, with err's text as the reason.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

type permanentError struct{ cause error }

func (e *permanentError) Error() string { return e.cause.Error() }

func (e *permanentError) Unwrap() error { return e.cause }

func isPermanent(err error) bool { return errors.As(err, new(*permanentError)) }

// readable is err with its text read once: a handler's error may be a nil pointer, or of a
// type whose methods panic. Of one that can't be read it is the type alone.
func readable(err error) (safe error) {
	if err == nil {
		return nil
	}
	defer func() {
		if recover() != nil {
			safe = fmt.Errorf("an error of type %T, whose methods panic", err)
		}
	}()
	_ = errors.Is(err, errHandleTimeout) // looks at all that it wraps
	return &readError{text: err.Error(), cause: err}
}

type readError struct {
	text  string
	cause error
}

func (e *readError) Error() string { return e.text }

func (e *readError) Unwrap() error { return e.cause }

// PanicError is a handler's panic, or its runtime.Goexit. It tells the runtime's own
// errors and hides any other value, which may be data.
type PanicError struct {
	text  string
	Stack []byte
}

func (e *PanicError) Error() string { return e.text }

// NewPanicError makes the error of a recovered value; nil stands for runtime.Goexit,
// of which nothing can be recovered.
func NewPanicError(value any, stack []byte) *PanicError {
	if value == nil {
		return &PanicError{text: "runtime.Goexit in place of a return", Stack: stack}
	}
	if err, ok := value.(interface {
		error
		RuntimeError()
	}); ok {
		return &PanicError{text: "panic: " + readable(err).Error(), Stack: stack}
	}
	return &PanicError{text: fmt.Sprintf("panic with a %T", value), Stack: stack}
}

// reasonOf is err's text without what a server or a driver quotes of the data.
func reasonOf(db *DB, err error) string {
	if info := db.Classify(err); info.Code != 0 {
		reason := fmt.Sprintf("database error %d", info.Code)
		if info.Constraint != "" {
			reason += ", constraint " + info.Constraint
		}
		return reason
	}
	reason := err.Error()
	// database/sql quotes the value that it could not scan after the column's name.
	if before, _, ok := strings.Cut(reason, ": converting driver.Value"); ok {
		return before
	}
	return reason
}
