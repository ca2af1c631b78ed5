package outbox

import "database/sql"

// DB is a pool together with what its driver's errors mean. Make one with
// the package for your driver (mysqldb.Open), which also checks that the
// connection's settings allow the promise to be kept, and watches its transactions.
type DB struct {
	*sql.DB

	classifier ErrorClassifier
	wakes      wakes
}

// NewDB joins a pool and a classifier. Services use mysqldb.Open; this is for
// drivers that have no package here, and for tests.
func NewDB(pool *sql.DB, classifier ErrorClassifier) *DB {
	return &DB{DB: pool, classifier: classifier}
}

// Classify says what an error of this database means.
func (db *DB) Classify(err error) ErrorInfo { return classify(db.classifier, err) }

// ErrorClassifier tells what a driver's error means.
type ErrorClassifier interface {
	// Classify never returns more certainty than the error gives: what it
	// doesn't know is FaultOther. err is never nil.
	Classify(err error) ErrorInfo
}

// ErrorInfo is what is known of a database error.
type ErrorInfo struct {
	Fault Fault

	// Code is the server's error number; 0 when the error isn't the server's.
	Code int

	// Constraint is the name of the unique constraint or index that a
	// FaultDuplicate names, without its table; empty when it couldn't be read
	// with certainty.
	Constraint string
}

// Fault is the kind of a database error.
type Fault int

// The faults. All but FaultOther and FaultDuplicate end the transaction, or may
// have ended it.
const (
	FaultOther       Fault = iota // anything else; the transaction goes on
	FaultDuplicate                // a unique key is taken; the transaction goes on
	FaultDeadlock                 // the server rolled the transaction back (MySQL 1213, 1020)
	FaultLockTimeout              // a lock wait timed out; the statement, or the transaction, was rolled back (1205)
	FaultReadOnly                 // the server is read-only, as after a failover (1290 for --read-only, 1792, 1836)
	FaultConnection               // the connection broke: what the server did is unknown
)

func (f Fault) String() string {
	switch f {
	case FaultDuplicate:
		return "duplicate"
	case FaultDeadlock:
		return "deadlock"
	case FaultLockTimeout:
		return "lock timeout"
	case FaultReadOnly:
		return "read-only"
	case FaultConnection:
		return "connection"
	default:
		return "other"
	}
}

// EndsTransaction reports whether nothing but a rollback may follow in the
// transaction that the error came from. After a deadlock the server has already
// rolled back, and the next statement would run, and commit, on its own.
func (f Fault) EndsTransaction() bool { return f >= FaultDeadlock }

// RefusesCommit reports whether the error, when COMMIT returned it, proves that
// nothing was committed.
func (f Fault) RefusesCommit() bool { return f == FaultDeadlock || f == FaultReadOnly }

func classify(c ErrorClassifier, err error) ErrorInfo {
	if isContextError(err) {
		// The driver closes a connection whose context ended in the middle of a statement.
		return ErrorInfo{Fault: FaultConnection}
	}
	if c == nil {
		return ErrorInfo{Fault: FaultOther}
	}
	return c.Classify(err)
}
