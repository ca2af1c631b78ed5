package main

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// relayLoop drains the outbox with a relay and a publisher that confirms at once.
func relayLoop(ctx context.Context, b *box, s settings) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	left := s.events
	relay, err := outbox.NewRelay(
		&untilMarked{Store: orderevents.NewStore(b.db), left: &left, done: cancel},
		confirmAtOnce{},
		&outbox.RelayConfig{BatchSize: s.batch, BatchBytes: 64 << 20, Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))},
	)
	if err != nil {
		return err
	}
	if err := relay.Run(ctx); err != nil {
		return err
	}
	return allMarked(b)
}

type confirmAtOnce struct{}

func (confirmAtOnce) Publish(_ context.Context, messages []outbox.Envelope) []error {
	return make([]error, len(messages))
}

// untilMarked stops the relay when all is marked.
type untilMarked struct {
	outbox.Store
	left *int
	done func()
}

func (u *untilMarked) Settle(ctx context.Context, b *outbox.Batch, o []outbox.EventOutcome) (outbox.Settlement, error) {
	s, err := u.Store.Settle(ctx, b, o)
	if *u.left -= s.Published; *u.left <= 0 {
		u.done()
	}
	return s, err
}

// bareLoop runs the statements of claim and mark one after the other.
func bareLoop(ctx context.Context, b *box, s settings) error {
	selectDue, lease, mark, err := statements()
	if err != nil {
		return err
	}
	for token := 1; ; token++ {
		ids, err := bareClaim(ctx, b.db.DB, selectDue, lease, s.batch, token)
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			return allMarked(b)
		}
		tx, err := b.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, in(mark, len(ids)), append(ids, "bare", token)...); err != nil {
			return err
		}
		if err := tx.Commit(); err != nil {
			return err
		}
	}
}

func bareClaim(ctx context.Context, db *sql.DB, selectDue, lease string, batch, token int) ([]any, error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	rows, err := tx.QueryContext(ctx, selectDue, batch)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ids []any
	for rows.Next() {
		var (
			id   string
			rest [9]sql.RawBytes
		)
		if err := rows.Scan(&id, &rest[0], &rest[1], &rest[2], &rest[3], &rest[4], &rest[5], &rest[6], &rest[7], &rest[8]); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil || len(ids) == 0 {
		return nil, err
	}
	us := (30 * time.Second).Microseconds()
	if _, err := tx.ExecContext(ctx, in(lease, len(ids)), append([]any{"bare", token, us, us}, ids...)...); err != nil {
		return nil, err
	}
	return ids, tx.Commit()
}

// statements reads the relay's own statements from the file that sqlc reads.
func statements() (selectDue, lease, mark string, err error) {
	const file = "queries/outbox.sql"
	text, err := os.ReadFile(file)
	if err != nil {
		return "", "", "", fmt.Errorf("run it from the top of the repository: %w", err)
	}
	named := map[string]string{}
	for _, part := range strings.Split(string(text), "-- name: ")[1:] {
		name, body, _ := strings.Cut(part, " ")
		_, body, _ = strings.Cut(body, "\n")
		for _, arg := range []string{"owner", "token", "lease_us"} {
			body = strings.ReplaceAll(body, "sqlc.arg("+arg+")", "?")
		}
		named[name] = strings.TrimSuffix(strings.TrimSpace(body), ";")
	}
	selectDue, lease, mark = named["SelectDueEvents"], named["LeaseEvents"], named["MarkPublished"]
	if selectDue == "" || lease == "" || mark == "" {
		return "", "", "", fmt.Errorf("%s lacks a statement of the claim or the mark", file)
	}
	return selectDue, lease, mark, nil
}

// in puts n placeholders for the list of event ids.
func in(statement string, n int) string {
	return strings.Replace(statement, "sqlc.slice(event_ids)", strings.Repeat(",?", n)[1:], 1)
}

func allMarked(b *box) error {
	n, err := b.waiting(context.Background())
	if err == nil && n > 0 {
		err = fmt.Errorf("%d events are not marked", n)
	}
	return err
}
