// Package mysqlerr tells what the errors of go-sql-driver/mysql mean for a
// transaction, on MySQL and MariaDB.
package mysqlerr

import (
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// The server's error numbers that decide something
// (https://dev.mysql.com/doc/mysql-errors/8.4/en/server-error-reference.html).
const (
	erCheckRead              = 1020 // MariaDB's snapshot isolation: the row changed; the transaction is rolled back
	erServerShutdown         = 1053
	erDupEntry               = 1062
	erLockWaitTimeout        = 1205
	erLockTableFull          = 1206 // InnoDB rolls the whole transaction back, as on a deadlock
	erLockDeadlock           = 1213
	erOptionPreventsStmt     = 1290 // --read-only, and other options that prevent a statement
	erQueryInterrupted       = 1317
	erReadOnlyTransaction    = 1792
	erReadOnlyMode           = 1836
	erServerIsolation        = 1927 // MariaDB: connection was killed
	erDupEntryWithKeyName    = 1586
	erStatementTimeout       = 1969 // MariaDB: max_statement_time exceeded
	erClientInteractionLimit = 4031 // the server closed the idle connection
)

// Classifier implements outbox.ErrorClassifier.
type Classifier struct{}

var _ outbox.ErrorClassifier = Classifier{}

// Classify implements outbox.ErrorClassifier. It goes by the error's number, and by the
// message where that names the constraint of a duplicate key, or the option of a 1290. The number alone
// is not enough: the driver's own MySQLError.Is compares nothing else.
func (Classifier) Classify(err error) outbox.ErrorInfo {
	var server *mysql.MySQLError
	if errors.As(err, &server) {
		return classifyServer(server)
	}
	var network net.Error
	if errors.Is(err, mysql.ErrInvalidConn) ||
		errors.Is(err, driver.ErrBadConn) ||
		errors.Is(err, mysql.ErrPktSync) ||
		errors.Is(err, mysql.ErrPktSyncMul) ||
		errors.Is(err, mysql.ErrMalformPkt) ||
		errors.Is(err, mysql.ErrBusyBuffer) ||
		errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.As(err, &network) {
		return outbox.ErrorInfo{Fault: outbox.FaultConnection}
	}
	return outbox.ErrorInfo{Fault: outbox.FaultOther}
}

func classifyServer(e *mysql.MySQLError) outbox.ErrorInfo {
	info := outbox.ErrorInfo{Fault: outbox.FaultOther, Code: int(e.Number)}
	switch e.Number {
	case erDupEntry, erDupEntryWithKeyName:
		info.Fault = outbox.FaultDuplicate
		info.Constraint = constraintOf(e.Message)
	case erLockDeadlock, erCheckRead, erLockTableFull:
		info.Fault = outbox.FaultDeadlock
	case erLockWaitTimeout:
		info.Fault = outbox.FaultLockTimeout
	case erOptionPreventsStmt:
		if namesReadOnly(e.Message) {
			info.Fault = outbox.FaultReadOnly
		}
	case erReadOnlyTransaction, erReadOnlyMode:
		info.Fault = outbox.FaultReadOnly
	case erServerShutdown, erServerIsolation, erClientInteractionLimit:
		info.Fault = outbox.FaultConnection
	case erQueryInterrupted, erStatementTimeout:
		// The statement was undone and the transaction goes on.
	}
	return info
}

// namesReadOnly reports whether the option that a 1290 names is --read-only or
// --super-read-only. Others, such as --secure-file-priv, are the statement's affair. The
// option's name is the same in the messages of all languages.
func namesReadOnly(message string) bool {
	return strings.Contains(strings.ReplaceAll(strings.ToLower(message), "_", "-"), "read-only")
}
