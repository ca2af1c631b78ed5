package outbox_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func TestCommitOutcomes(t *testing.T) {
	cases := []struct {
		name   string
		commit error
		want   outbox.Outcome
	}{
		{"answered", nil, outbox.Committed},
		{"deadlock", errDeadlock, outbox.RolledBack},
		{"read-only", errReadOnly, outbox.RolledBack},
		{"lock wait timeout", errLockTimeout, outbox.Unknown},
		{"connection lost", errConnection, outbox.Unknown},
		{"bad connection", driver.ErrBadConn, outbox.Unknown},
		{"an error nobody knows", errors.New("undetermined"), outbox.Unknown},
		{"foreign key", errForeignKey, outbox.Unknown},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			fake, db := newFakeDB()
			fake.answer["COMMIT"] = c.commit
			got, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error {
				_, err := tx.ExecContext(t.Context(), "INSERT")
				return err
			})
			if got != c.want {
				t.Errorf("got %v (%v), want %v", got, err, c.want)
			}
			if (err == nil) != (got == outbox.Committed) {
				t.Errorf("%v with error %v", got, err)
			}
			var unknown *outbox.CommitUnknownError
			if errors.As(err, &unknown) != (got == outbox.Unknown) {
				t.Errorf("%v with error %T", got, err)
			}
		})
	}
}

func TestSwallowedErrorsPoisonTheTransaction(t *testing.T) {
	for _, cause := range []error{errDeadlock, errLockTimeout, errReadOnly, errConnection, context.DeadlineExceeded} {
		t.Run(cause.Error(), func(t *testing.T) {
			fake, db := newFakeDB()
			fake.answer["UPDATE stock"] = cause
			outcome, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error {
				_, _ = tx.ExecContext(t.Context(), "UPDATE stock") // swallowed
				if _, err := tx.ExecContext(t.Context(), "INSERT event"); err == nil {
					t.Error("a statement ran after the error that ended the transaction")
				}
				if _, err := tx.QueryContext(t.Context(), "SELECT 1"); err == nil {
					t.Error("a query ran")
				}
				if err := tx.QueryRowContext(t.Context(), "SELECT 1").Scan(new(int)); err == nil {
					t.Error("a query of a row ran")
				}
				if _, err := tx.PrepareContext(t.Context(), "SELECT 1"); err == nil {
					t.Error("a statement was prepared")
				}
				return nil
			})
			var poisoned *outbox.PoisonedError
			if outcome != outbox.RolledBack || !errors.As(err, &poisoned) || !errors.Is(err, cause) {
				t.Errorf("got %v, %v; want rolled back by the cause", outcome, err)
			}
			if got := fake.statements(); !slices.Equal(got, []string{"BEGIN", "UPDATE stock", "ROLLBACK"}) {
				t.Errorf("sent %q", got)
			}
		})
	}
}

func TestOtherErrorsDoNotPoison(t *testing.T) {
	for _, harmless := range []error{errDuplicate, errForeignKey, errors.New("syntax")} {
		fake, db := newFakeDB()
		fake.answer["INSERT order"] = harmless
		outcome, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error {
			if _, err := tx.ExecContext(t.Context(), "INSERT order"); !errors.Is(err, harmless) {
				t.Errorf("got %v", err)
			}
			_, err := tx.ExecContext(t.Context(), "UPDATE order")
			return err
		})
		if outcome != outbox.Committed || err != nil {
			t.Errorf("%v: got %v, %v", harmless, outcome, err)
		}
	}
}

func TestErrorInTheMiddleOfAResultSetPoisons(t *testing.T) {
	fake, db := newFakeDB()
	fake.rowErr["SELECT FOR UPDATE"] = errDeadlock
	outcome, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error {
		rows, err := tx.QueryContext(t.Context(), "SELECT FOR UPDATE")
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() { // the error is swallowed on purpose
		}
		_ = rows.Close()
		return nil
	})
	if outcome != outbox.RolledBack || !errors.Is(err, errDeadlock) {
		t.Errorf("got %v, %v", outcome, err)
	}
}

func TestErrorInRowsLeftOpenPoisons(t *testing.T) {
	fake, db := newFakeDB()
	fake.rowErr["SELECT FOR UPDATE"] = errDeadlock
	outcome, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error {
		_, err := tx.QueryContext(t.Context(), "SELECT FOR UPDATE")
		return err
	})
	if outcome != outbox.RolledBack || !errors.Is(err, errDeadlock) {
		t.Errorf("got %v, %v", outcome, err)
	}
}

func TestFunctionErrorRollsBack(t *testing.T) {
	fake, db := newFakeDB()
	mine := errors.New("no stock")
	outcome, err := outbox.InTx(t.Context(), db, func(*outbox.Tx) error { return mine })
	if outcome != outbox.RolledBack || err != mine { //nolint:errorlint // the very error is promised
		t.Errorf("got %v, %v", outcome, err)
	}
	if got := fake.statements(); !slices.Equal(got, []string{"BEGIN", "ROLLBACK"}) {
		t.Errorf("sent %q", got)
	}
}

func TestPanicRollsBack(t *testing.T) {
	fake, db := newFakeDB()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = outbox.InTx(t.Context(), db, func(*outbox.Tx) error { panic("oops") })
	}()
	if got := fake.statements(); !slices.Equal(got, []string{"BEGIN", "ROLLBACK"}) {
		t.Errorf("sent %q", got)
	}
}

func TestEndedContextNeverCommits(t *testing.T) {
	fake, db := newFakeDB()
	ctx, cancel := context.WithCancel(t.Context())
	outcome, err := outbox.InTx(ctx, db, func(*outbox.Tx) error {
		cancel()
		return nil
	})
	if outcome != outbox.RolledBack || err == nil {
		t.Errorf("got %v, %v", outcome, err)
	}
	if slices.Contains(fake.statements(), "COMMIT") {
		t.Error("COMMIT was sent")
	}
}

func TestBeginErrorIsRolledBack(t *testing.T) {
	fake, db := newFakeDB()
	fake.answer["BEGIN"] = errConnection
	outcome, err := outbox.InTx(t.Context(), db, func(*outbox.Tx) error { t.Error("ran"); return nil })
	if outcome != outbox.RolledBack || !errors.Is(err, errConnection) {
		t.Errorf("got %v, %v", outcome, err)
	}
}

func TestStatementsThatEndTheTransactionAreRefused(t *testing.T) {
	refused := []string{
		"COMMIT", "commit", " BEGIN", "START TRANSACTION", "ROLLBACK", "rollback work",
		"CREATE TABLE t (x INT)", "DROP TABLE t", "ALTER TABLE t ADD y INT", "TRUNCATE t",
		"/* a comment */ COMMIT", "-- a comment\nCOMMIT", "# a comment\nCOMMIT", ";COMMIT",
		"LOCK TABLES t WRITE", "XA END 'x'", "CALL p()", "/*!COMMIT*/", "/*!50000 COMMIT */", "--\tx\nCOMMIT",
		"SET PASSWORD = 'x'", "LOAD INDEX INTO CACHE t", "CACHE INDEX t IN c", "STOP REPLICA", "EXECUTE s", "/*M! COMMIT */",
	}
	allowed := []string{
		"INSERT INTO t VALUES (1)", "ROLLBACK TO SAVEPOINT a", "SAVEPOINT a", "RELEASE SAVEPOINT a",
		"CREATE TEMPORARY TABLE t (x INT)", "DROP TEMPORARY TABLE t", "commitments", "SET @x = 1", "LOAD DATA LOCAL INFILE 'x' INTO TABLE t", "(SELECT 1)", "WITH x AS (SELECT 1) SELECT * FROM x", "",
	}
	run := func(query string) error {
		_, db := newFakeDB()
		_, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error {
			_, err := tx.ExecContext(t.Context(), query)
			return err
		})
		return err
	}
	for _, q := range refused {
		if err := run(q); !errors.Is(err, outbox.ErrTransactionControl) {
			t.Errorf("%q: %v", q, err)
		}
	}
	for _, q := range allowed {
		if err := run(q); err != nil {
			t.Errorf("%q: %v", q, err)
		}
	}
}

type goodPayload struct{}

func (goodPayload) Validate() error { return nil }

type badPayload struct{}

func (badPayload) Validate() error { return errors.New("amount: not a decimal number") }

func record(p outbox.Payload) outbox.Record {
	return outbox.Record{
		EventID: outbox.NewEventID(), AggregateType: "order", AggregateID: "1",
		EventType: "order.accepted", SchemaVersion: 1, Payload: p,
	}
}

func insertRow(ctx context.Context, tx outbox.Transaction, _ outbox.Row) error {
	_, err := tx.ExecContext(ctx, "INSERT event")
	return err
}

func TestFailedWriterPoisonsTheTransaction(t *testing.T) {
	huge := strings.Repeat("x", 129)
	cases := map[string]func(*outbox.Record, *outbox.WriteOptions){
		"invalid payload":        func(r *outbox.Record, _ *outbox.WriteOptions) { r.Payload = badPayload{} },
		"no event id":            func(r *outbox.Record, _ *outbox.WriteOptions) { r.EventID = [16]byte{} },
		"no aggregate id":        func(r *outbox.Record, _ *outbox.WriteOptions) { r.AggregateID = "" },
		"aggregate id too long":  func(r *outbox.Record, _ *outbox.WriteOptions) { r.AggregateID = huge },
		"aggregate id not UTF-8": func(r *outbox.Record, _ *outbox.WriteOptions) { r.AggregateID = "\xff" },
		"reserved header":        func(_ *outbox.Record, o *outbox.WriteOptions) { o.Headers = map[string]string{"nats-rollup": "all"} },
		"header with a newline":  func(_ *outbox.Record, o *outbox.WriteOptions) { o.Headers = map[string]string{"a": "b\r\nc"} },
		"header with a blank":    func(_ *outbox.Record, o *outbox.WriteOptions) { o.Headers = map[string]string{"a": "b "} },
		"headers too large": func(_ *outbox.Record, o *outbox.WriteOptions) {
			o.Headers = map[string]string{"a": strings.Repeat("x", 9000)}
		},
	}
	for name, spoil := range cases {
		t.Run(name, func(t *testing.T) {
			fake, db := newFakeDB()
			r, opts := record(goodPayload{}), outbox.WriteOptions{}
			spoil(&r, &opts)
			outcome, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error {
				if err := outbox.Write(t.Context(), tx, r, insertRow, opts); err == nil {
					t.Error("written")
				}
				return nil // swallowed
			})
			if outcome != outbox.RolledBack || err == nil {
				t.Errorf("got %v, %v", outcome, err)
			}
			if slices.Contains(fake.statements(), "INSERT event") {
				t.Error("the checks came after the insert")
			}
		})
	}
}

func TestFailedInsertPoisonsTheTransaction(t *testing.T) {
	fake, db := newFakeDB()
	fake.answer["INSERT event"] = errForeignKey // harmless anywhere but in a writer
	outcome, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error {
		_ = outbox.Write(t.Context(), tx, record(goodPayload{}), insertRow)
		return nil
	})
	if outcome != outbox.RolledBack || !errors.Is(err, errForeignKey) {
		t.Errorf("the business change would commit without its event: %v, %v", outcome, err)
	}
}

func TestWriterTakesAPlainTransaction(t *testing.T) {
	fake, db := newFakeDB()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := outbox.Write(t.Context(), tx, record(goodPayload{}), insertRow); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if got := fake.statements(); !slices.Equal(got, []string{"BEGIN", "INSERT event", "COMMIT"}) {
		t.Errorf("sent %q", got)
	}
	var _ outbox.Transaction = (*sql.Tx)(nil)
}
