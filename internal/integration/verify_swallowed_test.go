package integration

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/record"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest"
)

// A handler that gets an error from the database has to return it, whichever of its
// statements it is.
func TestVerifySwallowed(t *testing.T) {
	log := func(ctx context.Context, tx outbox.DBTX, id uuid.UUID) error {
		_, err := tx.ExecContext(ctx, "UPDATE placed SET request_id = request_id WHERE event_id = ?", id)
		return err
	}
	swallows := func(numbers ...uint16) func(error) error {
		return func(err error) error {
			var answer *mysql.MySQLError
			if errors.As(err, &answer) && (numbers == nil || slices.Contains(numbers, answer.Number)) {
				return nil
			}
			return err
		}
	}
	for n, c := range []struct {
		name   string
		handle orderState
		want   []string // none: it passes
	}{
		{"every error", func(ctx context.Context, tx *outbox.Tx, e outbox.Envelope) error {
			return swallows()(applies(ctx, tx, e.ID))
		}, []string{"the error 1062 of its statement 1; 0 effects", "the error 1406 of its statement 1; 0 effects"}},
		{"a duplicate of another constraint", func(ctx context.Context, tx *outbox.Tx, e outbox.Envelope) error {
			return swallows(1062)(applies(ctx, tx, e.ID))
		}, []string{"the error 1062 of its statement 1; 0 effects"}},
		{"of the second statement", func(ctx context.Context, tx *outbox.Tx, e outbox.Envelope) error {
			if err := log(ctx, tx, e.ID); err != nil {
				return err
			}
			return swallows(1406)(applies(ctx, tx, e.ID))
		}, []string{"the error 1406 of its statement 2; 0 effects"}},
		{"of a prepared statement", func(ctx context.Context, tx *outbox.Tx, e outbox.Envelope) error {
			s, err := tx.PrepareContext(ctx, "INSERT INTO applied (event_id) VALUES (?)")
			if err != nil {
				return swallows(1406)(err)
			}
			defer s.Close()
			_, err = s.ExecContext(ctx, e.ID.String())
			return err
		}, []string{"the error 1406 of its statement 1; 0 effects"}},
		{"of what it can do without", func(ctx context.Context, tx *outbox.Tx, e outbox.Envelope) error {
			_ = log(ctx, tx, e.ID)
			return applies(ctx, tx, e.ID)
		}, nil},
		{"that it takes for permanent", func(ctx context.Context, tx *outbox.Tx, e outbox.Envelope) error {
			if err := applies(ctx, tx, e.ID); err != nil {
				return outbox.Permanent(err)
			}
			return nil
		}, nil},
	} {
		run := func(t *testing.T, server dbtest.Database) {
			t.Parallel()
			cfg := soundConfig(t, lanesKind, server)
			cfg.Consumers[0].New = handling(c.handle)
			if c.want == nil {
				outboxtest.Verify(t, cfg)
				return
			}
			got := failure(t, func(t testing.TB) { outboxtest.Verify(t, cfg) })
			t.Log(got)
			for _, want := range append(c.want,
				"FAIL: the database answers a statement of the handler's with an error (handler-statement-error)",
				"but: consumer order-state: the handler got an error from the database and returned nil: ",
				"hint: return the error of every statement",
			) {
				if !strings.Contains(got, want) {
					t.Errorf("the message lacks %q", want)
				}
			}
			if n := strings.Count(got, "and returned nil"); n != len(c.want) || strings.Contains(got, "(before-commit)") {
				t.Errorf("%d are told, want %d", n, len(c.want))
			}
			if r, err := record.Read(cfg.Record); err != nil || r.Result != record.Fail {
				t.Errorf("the record: %v %+v", err, r)
			}
		}
		t.Run(c.name, func(t *testing.T) {
			if n == 0 {
				dbtest.Each(t, run)
			} else {
				run(t, dbtest.New(t, dbserver.MySQL))
			}
		})
	}
}
