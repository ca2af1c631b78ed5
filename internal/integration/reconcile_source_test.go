package integration

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/ops"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Tables of business rows of all sorts are read to their last row, each row once, by batches
// whose ends fall between rows of the same time; what is outside of the window is passed over.
func TestReconcileReadsAnyTable(t *testing.T) {
	const columns = "id BIGINT NOT NULL, tenant_id BIGINT NOT NULL, request_id VARCHAR(64) NOT NULL, acceptance_event_id CHAR(36) NOT NULL, "
	tables := map[string]string{
		"one number":          columns + "created_at DATETIME(6) NOT NULL, PRIMARY KEY (id)",
		"two columns":         columns + "created_at DATETIME NOT NULL, PRIMARY KEY (tenant_id, request_id)",
		"an index of times":   columns + "created_at DATETIME NOT NULL, PRIMARY KEY (tenant_id, request_id), KEY ix_created (created_at)",
		"timestamps":          columns + "created_at TIMESTAMP NOT NULL, PRIMARY KEY (tenant_id, id)",
		"indexed timestamps":  columns + "created_at TIMESTAMP(3) NOT NULL, PRIMARY KEY (id), KEY ix_created (created_at, id), KEY ix_event (acceptance_event_id)",
		"bytes":               "k BINARY(16) NOT NULL, " + columns + "created_at DATETIME(6) NOT NULL, PRIMARY KEY (k), KEY ix_created (created_at)",
		"times, and a text":   columns + "created_at DATETIME(6) NOT NULL, PRIMARY KEY (created_at, request_id)",
		"an index for events": columns + "created_at DATETIME(6) NOT NULL, PRIMARY KEY (request_id), KEY ix_event (acceptance_event_id)",
		"a key of events":     columns + "created_at DATETIME(6) NOT NULL, PRIMARY KEY (acceptance_event_id)",
	}
	for name, table := range tables {
		t.Run(name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
				t.Parallel()
				server.Exec(t, orderevents.Schema()...)
				server.Exec(t, "CREATE TABLE orders ("+table+") DEFAULT CHARSET = utf8mb4")
				for setting, params := range map[string]map[string]string{"here": nil, "west": {"time_zone": "'-11:00'"}} {
					db := open(t, server.DSN)
					mustExec(t, db, "DELETE FROM orders")
					var want []string
					for i := range 40 {
						at := time.Now().Add(-time.Duration(1+i/7) * time.Hour).UTC().Truncate(time.Second) // seven at a time
						id := outbox.NewEventID().String()
						key := ""
						names, more := "id, tenant_id, request_id, acceptance_event_id, created_at", []any{}
						if name == "bytes" {
							names, key = "k, "+names, "?, "
							more = []any{append([]byte{byte(i * 6), 0xff, 0}, fmt.Sprintf("%013d", i)...)}
						}
						created := "'1970-01-01' + INTERVAL ? SECOND"
						_, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error {
							mustExec(t, tx, "SET time_zone = '+00:00'")
							mustExec(t, tx, "INSERT INTO orders ("+names+") VALUES ("+key+"?, ?, ?, ?, "+created+")", append(more, i, i%3, fmt.Sprintf("Ré%d", i), id, at.Unix())...)
							return nil
						})
						if err != nil {
							t.Fatal(err)
						}
						if i >= 7 && i < 35 {
							want = append(want, id)
						}
					}
					cfg := server.Config()
					cfg.Params = params
					cfg.InterpolateParams = setting == "west"
					s := reconciling(t, lanesKind, cfg.FormatDSN())
					for _, batch := range []int{3, 7, 100} {
						report, err := s.Reconcile(t.Context(), ops.ReconcileOptions{From: time.Now().Add(-5*time.Hour - 30*time.Minute), To: time.Now().Add(-90 * time.Minute), Batch: batch})
						if err != nil {
							t.Fatal(err)
						}
						var got []string
						for _, f := range report.Findings {
							got = append(got, f.EventID)
						}
						slices.Sort(got)
						if diff := cmp.Diff(want, got); diff != "" {
							t.Errorf("%s, batches of %d: %s", setting, batch, diff)
						}
					}
				}
			})
		})
	}
}
