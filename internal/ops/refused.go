package ops

import (
	"errors"

	"github.com/go-sql-driver/mysql"
)

// The server's errors that say what a database lacks
// (https://dev.mysql.com/doc/mysql-errors/8.4/en/server-error-reference.html).
const (
	erDBAccessDenied     = 1044
	erAccessDenied       = 1045
	erUnknownDatabase    = 1049
	erUnknownColumn      = 1054
	erCantMix            = 1267 // MariaDB's, as MySQL's 3854 and 3988
	erTableAccessDenied  = 1142
	erColumnAccessDenied = 1143
	erNoSuchTable        = 1146
	erNoSuchKey          = 1176
	erViewInvalid        = 1356
	erCantConvert        = 3854
	erCantConvertParam   = 3988
)

// Hint is the way out of an error of a database, or nothing. The error itself names the
// table, the column or the right that is missing.
func Hint(err error) string {
	var server *mysql.MySQLError
	if !errors.As(err, &server) {
		return ""
	}
	switch server.Number {
	case erNoSuchTable, erUnknownColumn, erNoSuchKey:
		return "the tables are not those of this version and this events.yaml, or not in this database: outboxgen schema diff says what they lack, and prints what adds it"
	case erTableAccessDenied, erColumnAccessDenied:
		return "the database's user lacks this right: outboxgen doctor --grants prints the statements that give it"
	case erViewInvalid:
		return "outboxgen schema diff says whether the view is right; if it is, a right is missing: outboxgen doctor --grants prints the statements that give it"
	case erDBAccessDenied, erAccessDenied:
		return "the server refuses this user, this password or this database; outboxgen doctor --grants prints the rights that a user needs"
	case erCantMix, erCantConvert, erCantConvertParam:
		return "a value that is asked for has letters that its column can't have: nothing there is equal to it"
	case erUnknownDatabase:
		return "is the name of the database in the DSN right?"
	}
	return ""
}
