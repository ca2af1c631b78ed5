package mysqlerr_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/runtime/mysqlerr"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func TestFaults(t *testing.T) {
	server := func(number uint16) error { return &mysql.MySQLError{Number: number, Message: "x"} }
	cases := []struct {
		name          string
		err           error
		fault         outbox.Fault
		ends          bool // the transaction can only be rolled back
		refusesCommit bool
	}{
		{"deadlock", server(1213), outbox.FaultDeadlock, true, true},
		{"snapshot conflict", server(1020), outbox.FaultDeadlock, true, true},
		{"lock table full", server(1206), outbox.FaultDeadlock, true, true},
		{"lock wait timeout", server(1205), outbox.FaultLockTimeout, true, false},
		{"an option of no name", server(1290), outbox.FaultOther, false, false},
		{"read-only mode", server(1836), outbox.FaultReadOnly, true, true},
		{"read-only transaction", server(1792), outbox.FaultReadOnly, true, true},
		{"server shutdown", server(1053), outbox.FaultConnection, true, false},
		{"killed", server(1927), outbox.FaultConnection, true, false},
		{"duplicate", server(1062), outbox.FaultDuplicate, false, false},
		{"foreign key", server(1452), outbox.FaultOther, false, false},
		{"too long", server(1406), outbox.FaultOther, false, false},
		{"interrupted", server(1317), outbox.FaultOther, false, false},
		{"undetermined by its server", server(8501), outbox.FaultOther, false, false},
		{"invalid connection", mysql.ErrInvalidConn, outbox.FaultConnection, true, false},
		{"bad connection", driver.ErrBadConn, outbox.FaultConnection, true, false},
		{"end of stream", io.EOF, outbox.FaultConnection, true, false},
		{"network", &net.OpError{Op: "read", Err: errors.New("reset")}, outbox.FaultConnection, true, false},
		{"anything", errors.New("anything"), outbox.FaultOther, false, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := mysqlerr.Classifier{}.Classify(fmt.Errorf("insert: %w", c.err))
			if got.Fault != c.fault || got.Fault.EndsTransaction() != c.ends || got.Fault.RefusesCommit() != c.refusesCommit {
				t.Errorf("got %v (ends %v, refuses commit %v), want %v (%v, %v)",
					got.Fault, got.Fault.EndsTransaction(), got.Fault.RefusesCommit(), c.fault, c.ends, c.refusesCommit)
			}
		})
	}
}

// The messages are the servers' own: MySQL 8.4 and 9, MariaDB 10.6 and 11, and translations.
func TestOptionsThatPreventAStatement(t *testing.T) {
	for message, readOnly := range map[string]bool{
		"The MySQL server is running with the --read-only option so it cannot execute this statement":                  true,
		"The MySQL server is running with the --super-read-only option so it cannot execute this statement":            true,
		"The MariaDB server is running with the --read-only option so it cannot execute this statement":                true,
		"The MariaDB server is running with the read_only=ON option so it cannot execute this statement":               true,
		"Der MySQL-Server läuft mit der Option --read-only und kann diese Anweisung deswegen nicht ausführen":          true,
		"The MySQL server is running with the --secure-file-priv option so it cannot execute this statement":           false,
		"The MariaDB server is running with the --skip-grant-tables option so it cannot execute this statement":        false,
		"The MySQL server is running with the --skip-show-database option so it cannot execute this statement":         false,
		"Der MariaDB-Server läuft mit der Option --secure-file-priv und kann diese Anweisung deswegen nicht ausführen": false,
	} {
		want := outbox.FaultOther
		if readOnly {
			want = outbox.FaultReadOnly
		}
		if got := (mysqlerr.Classifier{}).Classify(&mysql.MySQLError{Number: 1290, Message: message}); got.Fault != want || got.Code != 1290 {
			t.Errorf("%q: %v, want %v", message, got, want)
		}
	}
}

func TestContextErrorsEndTheTransaction(t *testing.T) {
	db := outbox.NewDB(nil, mysqlerr.Classifier{})
	for _, err := range []error{context.Canceled, context.DeadlineExceeded} {
		if got := db.Classify(err).Fault; got != outbox.FaultConnection {
			t.Errorf("%v: got %v, want connection: the driver closes the connection", err, got)
		}
	}
}

func TestConstraint(t *testing.T) {
	const name = "uq_consumed_event_identity"
	cases := []struct{ about, message, want string }{
		{"MySQL 8.0.19 and later", "Duplicate entry 'planner-0190' for key 'consumed_event.uq_consumed_event_identity'", name},
		{"MariaDB and older MySQL", "Duplicate entry 'planner-0190' for key 'uq_consumed_event_identity'", name},
		{"with schema and table", "Duplicate entry 'a' for key 'shop.consumed_event.uq_consumed_event_identity'", name},
		{"Vitess", "Duplicate entry 'a' for key 'consumed_event.uq_consumed_event_identity' (errno 1062) (sqlstate 23000) (CallerID: x): Sql: \"insert\"", name},
		{"German", "Doppelter Eintrag 'a' für Schlüssel 'consumed_event.uq_consumed_event_identity'", name},
		{"French", "Duplicata du champ 'a' pour la clef 'uq_consumed_event_identity'", name},
		{"Japanese, with words after the key", "'a' は索引 'consumed_event.uq_consumed_event_identity' で重複しています。", name},
		{"Russian", "Дублирующаяся запись 'a' по ключу 'uq_consumed_event_identity'", name},

		{"another constraint", "Duplicate entry 'a' for key 'orders.uq_orders_request'", "uq_orders_request"},
		{"our name in the value", "Duplicate entry 'x' for key 'consumed_event.uq_consumed_event_identity' for key 'biz.PRIMARY'", "PRIMARY"},
		{"our name in the value, quoted", "Duplicate entry 'uq_consumed_event_identity' for key 'biz.uq'", "uq"},
		{"our name as a part", "Duplicate entry 'a' for key 't.uq_consumed_event_identity_old'", "uq_consumed_event_identity_old"},
		{"our name as the table's", "Duplicate entry 'a' for key 'uq_consumed_event_identity.PRIMARY'", "PRIMARY"},
		{"blank in the key", "Duplicate entry 'a' for key 'uq_consumed_event_identity '", ""},
		{"cut by a NUL", "Duplicate entry 'abc", ""},
		{"no quotes", "Duplicate entry", ""},
		{"empty key", "Duplicate entry 'a' for key ''", ""},
		{"empty", "", ""},
	}
	for _, c := range cases {
		t.Run(c.about, func(t *testing.T) {
			got := mysqlerr.Classifier{}.Classify(&mysql.MySQLError{Number: 1062, Message: c.message})
			if got.Fault != outbox.FaultDuplicate || got.Constraint != c.want {
				t.Errorf("got %v %q, want a duplicate of %q", got.Fault, got.Constraint, c.want)
			}
		})
	}
}

func FuzzConstraint(f *testing.F) {
	f.Add("x' for key 'consumed_event.uq_consumed_event_identity", "biz", "PRIMARY")
	f.Fuzz(func(t *testing.T, value, table, key string) {
		// Whatever the value holds, the key is what the server names last.
		message := "Duplicate entry '" + value + "' for key '" + table + "." + key + "'"
		got := mysqlerr.Classifier{}.Classify(&mysql.MySQLError{Number: 1062, Message: message}).Constraint
		if got == "uq_consumed_event_identity" && key != got && !containsAny(key, ".'") {
			t.Errorf("%q taken for our constraint", message)
		}
	})
}

func containsAny(s, chars string) bool {
	for _, c := range chars {
		for _, d := range s {
			if c == d {
				return true
			}
		}
	}
	return false
}
