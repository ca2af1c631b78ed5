package integration

import (
	"context"
	"database/sql"
	"testing"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// What looks like a read-only server and isn't the transaction's is an error like any: it
// is counted, and parks its event.
func TestReadOnlyElsewhereIsCounted(t *testing.T) {
	eachSettings(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		other, err := sql.Open("mysql", server.DSN)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		for name, do := range map[string]effect{
			"a file outside of secure_file_priv": func(ctx context.Context, tx *outbox.Tx, _ string) error {
				_, err := tx.ExecContext(ctx, "SELECT 1 INTO OUTFILE '/nonexistent/x'")
				return err
			},
			"a read-only transaction of another pool": func(ctx context.Context, _ *outbox.Tx, id string) error {
				tx, err := other.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
				if err != nil {
					return err
				}
				defer tx.Rollback() //nolint:errcheck // nothing is in it
				_, err = tx.ExecContext(ctx, "INSERT INTO tally (event_id) VALUES (?)", id)
				return err
			},
		} {
			var cause error
			consumer := report(db, func(ctx context.Context, tx *outbox.Tx, id string) error {
				cause = do(ctx, tx, id)
				return cause
			})
			e := envelope(t)
			fails(t, consumer, e, outbox.FailureFailed, 1)
			if cause == nil {
				t.Errorf("%s: allowed", name)
			}
			fails(t, consumer, e, outbox.FailureFailed, 2)
			ends(t, consumer, e, outbox.Parked)
			checkLeft(t, db, e, left{attempts: 3, parked: 1, outcome: int(outbox.Parked), effects: 0})
			t.Logf("%s: %v", name, cause)
		}
	})
}

// The transaction's own server being read-only is nobody's fault, by whatever way the
// statement goes to it.
func TestReadOnlyTransactionIsNotCounted(t *testing.T) {
	eachSettings(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		mustExec(t, db, "CREATE TABLE demoted (id INT)")
		mustExec(t, db, `CREATE TRIGGER demoted BEFORE INSERT ON demoted FOR EACH ROW
			SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1290, MESSAGE_TEXT = '--super-read-only'`)
		insert, err := db.PrepareContext(t.Context(), "INSERT INTO demoted VALUES (1)")
		if err != nil {
			t.Fatal(err)
		}
		defer insert.Close()
		for name, do := range map[string]effect{
			"by the transaction": func(ctx context.Context, tx *outbox.Tx, _ string) error {
				_, err := tx.ExecContext(ctx, "INSERT INTO demoted VALUES (1)")
				return err
			},
			"by a prepared statement": func(ctx context.Context, tx *outbox.Tx, _ string) error {
				_, err := tx.StmtContext(ctx, insert).ExecContext(ctx)
				return err
			},
		} {
			t.Log(name)
			e := envelope(t)
			fails(t, report(db, do), e, outbox.FailureUnavailable, 0)
			checkLeft(t, db, e, left{attempts: -1, parked: 0, outcome: -1, effects: 0})
		}
	})
}
