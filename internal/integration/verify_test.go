package integration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/internal/record"
	rows "github.com/outboxgen/outboxgen/internal/variants/rows/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest"
)

const privateValue = "not-for-logs-4711"

// place does a request of a verification, as a careful service would.
func place(ctx context.Context, tx *outbox.Tx, k kind, r outboxtest.Request) error {
	if _, err := tx.ExecContext(ctx, "INSERT INTO placed (request_id, event_id) VALUES (?, ?)", r.ID, r.EventID); err != nil {
		return err
	}
	return k.write(ctx, tx, r.EventID, r.Number, 1)
}

// applies has the effect of an event.
func applies(ctx context.Context, tx outbox.DBTX, id uuid.UUID) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO applied (event_id) VALUES (?)", id)
	return err
}

func handling(do orderState) func(*outbox.DB) outbox.Handler {
	return func(db *outbox.DB) outbox.Handler { return stateConsumer(db, do) }
}

func soundConfig(t testing.TB, k kind, server dbtest.Database) outboxtest.Config {
	t.Helper()
	return outboxtest.Config{
		DSN: server.DSN,
		Schema: append(k.schema(),
			"CREATE TABLE placed (request_id CHAR(36) PRIMARY KEY, event_id CHAR(36) NOT NULL)",
			"CREATE TABLE applied (n BIGINT AUTO_INCREMENT PRIMARY KEY, event_id CHAR(36) NOT NULL)"),
		Business: "SELECT request_id, event_id FROM placed",
		Write: func(ctx context.Context, db *outbox.DB, r outboxtest.Request) (outbox.Outcome, error) {
			return outbox.InTx(ctx, db, func(tx *outbox.Tx) error { return place(ctx, tx, k, r) })
		},
		Refused: func(ctx context.Context, db *outbox.DB, r outboxtest.Request) error {
			_, err := outbox.InTx(ctx, db, func(tx *outbox.Tx) error {
				return errors.Join(place(ctx, tx, k, r), errors.New("sold out"))
			})
			return err
		},
		NewStore: k.newStore,
		Consumers: []outboxtest.Consumer{{
			New: handling(func(ctx context.Context, tx *outbox.Tx, e outbox.Envelope) error { return applies(ctx, tx, e.ID) }),
			Effects: func(ctx context.Context, db *outbox.DB, r outboxtest.Request) (n int, err error) {
				err = db.QueryRowContext(ctx, "SELECT COUNT(*) FROM applied WHERE event_id = ?", r.EventID).Scan(&n)
				return n, err
			},
		}},
		Private:     []string{privateValue},
		Lease:       time.Second,
		Patience:    20 * time.Second,
		Application: "integration",
		Record:      filepath.Join(t.TempDir(), record.FileName),
	}
}

// What is right passes, with each kind of outbox on both databases, and the record says so.
func TestVerifySound(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
				t.Parallel()
				cfg := soundConfig(t, k, server)
				outboxtest.Verify(t, cfg)
				r, err := record.Read(cfg.Record)
				if err != nil {
					t.Fatal(err)
				}
				if r.Result != record.Pass || len(r.Injections) != 12 || r.Counts.BrokerMessages <= r.Counts.CommittedRequests ||
					r.Counts.Duplicates < 3 || r.Counts.LostLeases < 1 || r.Versions.Application != "integration" {
					t.Errorf("%+v", r)
				}
				for _, i := range r.Invariants {
					if i.Result != history.Pass && i.ID != "I10" && i.ID != "I9" { // each aggregate has one event
						t.Errorf("%s is %s: %q", i.ID, i.Result, i.Evidence)
					}
				}
			})
		})
	}
}

// absorbing is a broker that keeps one message of each event.
type absorbing struct {
	*outboxtest.Broker
	mu   sync.Mutex
	have map[uuid.UUID]bool
}

func (b *absorbing) Publish(ctx context.Context, messages []outbox.Envelope) []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	results := make([]error, len(messages))
	for i, m := range messages {
		if !b.have[m.ID] {
			results[i] = b.Broker.Publish(ctx, []outbox.Envelope{m})[0]
			b.have[m.ID] = results[i] == nil
		}
	}
	return results
}

// A broker of the user's may absorb repeats itself.
func TestVerifyOwnBroker(t *testing.T) {
	broker := outboxtest.NewBroker(outboxtest.BrokerConfig{Logger: slog.New(slog.DiscardHandler)})
	defer broker.Close()
	cfg := soundConfig(t, lanesKind, dbtest.New(t, dbserver.MySQL))
	cfg.Publisher, cfg.Subscribe = &absorbing{Broker: broker, have: map[uuid.UUID]bool{}}, broker.Subscribe
	cfg.Broker, cfg.Client = "absorbing 1.0", "its client 2.0"
	outboxtest.Verify(t, cfg)
	r, err := record.Read(cfg.Record)
	if err != nil || r.Result != record.Pass || r.Versions.Brokers[0] != cfg.Broker || r.Versions.Clients[0] != cfg.Client {
		t.Errorf("%v %+v", err, r)
	}
}

// early is a consumer that acknowledges before it has committed.
type early struct{ outbox.Handler }

func (h early) Handle(ctx context.Context, e outbox.Envelope) (outbox.Handling, error) {
	go func() {
		<-time.After(50 * time.Millisecond) // the commit takes a moment
		_, _ = h.Handler.Handle(context.WithoutCancel(ctx), e)
	}()
	return outbox.Applied, nil
}

// forgetful is a consumer without dedup rows.
type forgetful struct {
	outbox.Handler
	db *outbox.DB
}

func (h forgetful) Handle(ctx context.Context, e outbox.Envelope) (outbox.Handling, error) {
	if err := applies(ctx, h.db, e.ID); err != nil {
		return outbox.NotHandled, err
	}
	return outbox.Applied, nil
}

// unsure is a consumer that takes what it has done for a failure.
type unsure struct{ outbox.Handler }

func (h unsure) Handle(ctx context.Context, e outbox.Envelope) (outbox.Handling, error) {
	_, err := h.Handler.Handle(ctx, e)
	return outbox.NotHandled, errors.Join(errors.New("not sure"), err)
}

// unfenced is a store that marks whatever it published.
type unfenced struct {
	outbox.Store
	db *outbox.DB
}

func (s unfenced) Settle(ctx context.Context, b *outbox.Batch, _ []outbox.EventOutcome) (outbox.Settlement, error) {
	for _, e := range b.Events {
		if _, err := s.db.ExecContext(ctx, "UPDATE outbox_event SET status = 2, published_at = UTC_TIMESTAMP(6) WHERE event_id = ?", e.Key); err != nil {
			return outbox.Settlement{}, err
		}
	}
	return outbox.Settlement{Published: len(b.Events)}, nil
}

// losing is a broker that confirms and keeps nothing.
type losing struct{}

func (losing) Publish(_ context.Context, messages []outbox.Envelope) []error {
	return make([]error, len(messages))
}

// What is wrong fails, and the message says where to look.
func TestVerifyBroken(t *testing.T) {
	type request = outboxtest.Request
	for _, c := range []struct {
		name    string
		spoil   func(*outboxtest.Config)
		want    []string // parts of the messages
		notWant string
	}{
		{"the event is in a transaction of its own", func(c *outboxtest.Config) {
			c.Write = func(ctx context.Context, db *outbox.DB, r request) (outbox.Outcome, error) {
				return outbox.InTx(ctx, db, func(tx *outbox.Tx) error {
					_, err := outbox.InTx(ctx, db, func(other *outbox.Tx) error { return lanesKind.write(ctx, other, r.EventID, r.Number, 1) })
					if err != nil {
						return err
					}
					_, err = tx.ExecContext(ctx, "INSERT INTO placed (request_id, event_id) VALUES (?, ?)", r.ID, r.EventID)
					return err
				})
			}
		}, []string{"the commit succeeds and the client sees an error (commit-reply-lost)", "is committed without its business row", "hint: write the event with the transaction"}, ""},
		{"the event is written after the commit", func(c *outboxtest.Config) {
			c.Write = func(ctx context.Context, db *outbox.DB, r request) (outbox.Outcome, error) {
				outcome, err := outbox.InTx(ctx, db, func(tx *outbox.Tx) error {
					_, err := tx.ExecContext(ctx, "INSERT INTO placed (request_id, event_id) VALUES (?, ?)", r.ID, r.EventID)
					return err
				})
				if err != nil {
					return outcome, err
				}
				return outbox.InTx(ctx, db, func(tx *outbox.Tx) error { return lanesKind.write(ctx, tx, r.EventID, r.Number, 1) })
			}
		}, []string{"(before-commit)", "but: 1 business rows after the writer's death", "I1, "}, ""},
		{"unknown is told as rolled back", func(c *outboxtest.Config) {
			write := c.Write
			c.Write = func(ctx context.Context, db *outbox.DB, r request) (outbox.Outcome, error) {
				outcome, err := write(ctx, db, r)
				if outcome == outbox.Unknown {
					outcome = outbox.RolledBack
				}
				return outcome, err
			}
		}, []string{"(commit-reply-lost)", "but: the writer was told rolled back"}, "(before-commit)"},
		{"a refusal that leaves the event", func(c *outboxtest.Config) {
			c.Refused = func(ctx context.Context, db *outbox.DB, r request) error {
				_, err := outbox.InTx(ctx, db, func(tx *outbox.Tx) error { return lanesKind.write(ctx, tx, r.EventID, r.Number, 1) })
				return errors.Join(errors.New("sold out"), err)
			}
		}, []string{"(business-error)", "but: 1 events of it", "I1, "}, "(before-commit)"},
		{"acknowledged before the commit", func(c *outboxtest.Config) {
			sound := c.Consumers[0].New
			c.Consumers[0].New = func(db *outbox.DB) outbox.Handler { return early{sound(db)} }
		}, []string{"I5, what is acknowledged had its dedup row then", "was acknowledged without a dedup row", "Handle must not return before"}, ""},
		{"the effect is outside the transaction", func(c *outboxtest.Config) {
			c.Consumers[0].New = func(db *outbox.DB) outbox.Handler {
				return stateConsumer(db, func(ctx context.Context, _ *outbox.Tx, e outbox.Envelope) error { return applies(ctx, db, e.ID) })
			}
		}, []string{"(effect-not-committed)", "had its effect 2 times", "hint: make the change with the tx"}, "(before-commit)"},
		{"the effect is forgotten", func(c *outboxtest.Config) {
			c.Consumers[0].New = handling(func(context.Context, *outbox.Tx, outbox.Envelope) error { return nil })
		}, []string{"Config.Consumers[0].Effects, or the handler: consumer order-state has applied the event", "counts 0 of it, not 1"}, "(before-commit)"},
		{"no dedup rows", func(c *outboxtest.Config) {
			sound := c.Consumers[0].New
			c.Consumers[0].New = func(db *outbox.DB) outbox.Handler { return forgetful{sound(db), db} }
		}, []string{"I5, ", "was acknowledged without a dedup row", "INCONCLUSIVE: not everything came to its end after no-fault, so that the rest was not tried: before-commit, commit-reply-lost,"}, "(before-commit)"},
		{"a handler that always fails", func(c *outboxtest.Config) {
			c.Consumers[0].New = handling(func(context.Context, *outbox.Tx, outbox.Envelope) error { return outbox.Permanent(errors.New("never")) })
		}, []string{"(no-fault)", "parked it: its handler fails without any fault", "its reason: never", "the rest was not tried"}, "(before-commit)"},
		{"a handler that fails each time", func(c *outboxtest.Config) {
			do := orderState(func(context.Context, *outbox.Tx, outbox.Envelope) error {
				return errors.New("no stock of " + privateValue)
			})
			c.Consumers[0].New = func(db *outbox.DB) outbox.Handler {
				return rows.NewOrderState(db, do, &outbox.ConsumerConfig{Attempts: 100, Logger: slog.New(slog.DiscardHandler)})
			}
			c.Patience = time.Hour // what can't succeed is not waited for
		}, []string{"(no-fault)", "but: consumer order-state is not done with the event: it has failed 3 times", "its last error: no stock of [private]", "the rest was not tried"}, privateValue},
		{"a handler that never acknowledges", func(c *outboxtest.Config) {
			sound := c.Consumers[0].New
			c.Consumers[0].New = func(db *outbox.DB) outbox.Handler { return unsure{sound(db)} }
		}, []string{"(no-fault)", "but: consumer order-state is done with the event, and it is not acknowledged\n    its last error: not sure", "hint: Handle has to return no error"}, "(before-commit)"},
		{"marks without a fence", func(c *outboxtest.Config) {
			c.NewStore = func(db *outbox.DB) outbox.Store { return unfenced{lanesKind.newStore(db), db} }
		}, []string{"(expired-lease-late-mark)", "under a lease that was no longer its own"}, "(before-commit)"},
		{"a broker that keeps nothing", func(c *outboxtest.Config) {
			c.Publisher = losing{}
			c.Subscribe = func(ctx context.Context, _ outbox.Handler) error { <-ctx.Done(); return nil }
		}, []string{"consumer order-state is not done with the event: it was never handed to it", "hint: do Publisher and Subscribe", "the rest was not tried"}, ""},
		{"a broker that takes nothing", func(c *outboxtest.Config) {
			broker := outboxtest.NewBroker(outboxtest.BrokerConfig{Logger: slog.New(slog.DiscardHandler)})
			broker.OnPublish(func(outbox.Envelope) error { return outbox.PublishUnavailable(errors.New("no such exchange")) })
			t.Cleanup(broker.Close)
			c.Publisher, c.Subscribe = broker, broker.Subscribe
		}, []string{"the event is not marked as published: it is PENDING", "the relay's last error: publish: ", "no such exchange", "hint: does NewStore"}, ""},
		{"a consumer on a pool of its own", func(c *outboxtest.Config) {
			own, sound := open(t, c.DSN), c.Consumers[0].New
			c.Consumers[0].New = func(*outbox.DB) outbox.Handler { return sound(own) }
		}, []string{"INCONCLUSIVE: after the consumer's effect", "did not come to the point", "did not see the error 1062"}, ""},
		{"a writer on a pool of its own", func(c *outboxtest.Config) {
			own, sound := open(t, c.DSN), c.Write
			c.Write = func(ctx context.Context, _ *outbox.DB, r request) (outbox.Outcome, error) { return sound(ctx, own, r) }
		}, []string{"Write sends no COMMIT at all: it must use a transaction, and the db that it is given"}, ""},
		{"a private value in an error", func(c *outboxtest.Config) {
			write := c.Write
			c.Write = func(ctx context.Context, db *outbox.DB, r request) (outbox.Outcome, error) {
				outcome, err := write(ctx, db, r)
				if err != nil {
					err = fmt.Errorf("write %s: %w", privateValue, err)
				}
				return outcome, err
			}
		}, []string{"I12, ", "hint: log neither payloads"}, privateValue},
		{"a private value in an aggregate's id", func(c *outboxtest.Config) { c.Private = []string{"order/1"} },
			[]string{"a private value is in the record, which is removed"}, "(before-commit)"},
		{"a goroutine is left", func(c *outboxtest.Config) {
			forever := make(chan struct{})
			t.Cleanup(func() { close(forever) })
			c.Consumers[0].New = handling(func(ctx context.Context, tx *outbox.Tx, e outbox.Envelope) error {
				go func() { <-forever }()
				return applies(ctx, tx, e.ID)
			})
		}, []string{"I13, ", "goroutines are left", "\n  left: ", " goroutines in github.com/outboxgen/outboxgen/internal/integration.TestVerifyBroken.", "(verify_test.go:"}, "(before-commit)"},
		{"a writer leaves its transaction open", func(c *outboxtest.Config) {
			write := c.Write
			c.Write = func(ctx context.Context, db *outbox.DB, r request) (outbox.Outcome, error) {
				if _, err := db.BeginTx(ctx, nil); err != nil {
					return outbox.RolledBack, err
				}
				return write(ctx, db, r)
			}
		}, []string{"I13, ", "1 connections are left", "left: 1 connections in use that writer got from its pool, at no-fault: a transaction was not ended"}, "(before-commit)"},
		{"Effects leaves its rows open", func(c *outboxtest.Config) {
			c.Consumers[0].Effects = func(ctx context.Context, db *outbox.DB, r request) (n int, err error) {
				open, err := db.QueryContext(ctx, "SELECT 1 FROM applied WHERE event_id = ?", r.EventID) //nolint:sqlclosecheck // that is the fault
				for err == nil && n == 0 && open.Next() {
					n++
				}
				return n, err
			}
		}, []string{"I13, ", "in use that Business, an Effects or a New got from its pool, at the end"}, "(before-commit)"},
		{"Business has no row", func(c *outboxtest.Config) { c.Business += " WHERE request_id = 'other'" },
			[]string{"Config.Business, or Config.Write: ", "of the 0 rows that the query Business returns none has"}, "INCONCLUSIVE"},
		{"Business has another id", func(c *outboxtest.Config) {
			c.Business = "SELECT request_id, '01900000-0000-7000-8000-000000000001' FROM placed"
		},
			[]string{"Config.Business, or Config.Write: ", "another id in its second column"}, "INCONCLUSIVE"},
		{"Business has a row twice", func(c *outboxtest.Config) { c.Business += " UNION ALL " + c.Business },
			[]string{"Config.Business: the query returns 2 rows of one request"}, "INCONCLUSIVE"},
		{"Effects counts nothing", func(c *outboxtest.Config) {
			c.Consumers[0].Effects = func(context.Context, *outbox.DB, request) (int, error) { return 0, nil }
		}, []string{"Config.Consumers[0].Effects, or the handler: ", "counts 0 of it, not 1"}, "INCONCLUSIVE"},
		{"Effects counts everything", func(c *outboxtest.Config) {
			c.Consumers[0].Effects = func(ctx context.Context, db *outbox.DB, _ request) (n int, err error) {
				err = db.QueryRowContext(ctx, "SELECT COUNT(*) FROM applied").Scan(&n)
				return n, err
			}
		}, []string{"Config.Consumers[0].Effects: it counts 1 for a request that was never made"}, "INCONCLUSIVE"},
		{"no event is written", func(c *outboxtest.Config) {
			c.Write = func(ctx context.Context, db *outbox.DB, r request) (outbox.Outcome, error) {
				return outbox.InTx(ctx, db, func(tx *outbox.Tx) error {
					_, err := tx.ExecContext(ctx, "INSERT INTO placed (request_id, event_id) VALUES (?, ?)", r.ID, r.EventID)
					return err
				})
			}
		}, []string{"Config.Write: it returned committed, and there are 0 new events in the outbox"}, "INCONCLUSIVE"},
		{"a write that fails", func(c *outboxtest.Config) {
			c.Write = func(context.Context, *outbox.DB, request) (outbox.Outcome, error) {
				return outbox.RolledBack, errors.New("no " + privateValue)
			}
		}, []string{"injection no-fault: Write of a request, without any fault till then, returned rolled back: no [private]"}, privateValue},
		{"a write that fails without an error", func(c *outboxtest.Config) {
			c.Write = func(context.Context, *outbox.DB, request) (outbox.Outcome, error) { return outbox.Unknown, nil }
		}, []string{"injection no-fault: Write of a request, without any fault till then, returned unknown: without an error"}, ""},
		{"all is told as committed", func(c *outboxtest.Config) {
			write := c.Write
			c.Write = func(ctx context.Context, db *outbox.DB, r request) (outbox.Outcome, error) {
				_, _ = write(ctx, db, r)
				return outbox.Committed, nil
			}
		}, []string{"(before-commit)", "but: the writer was told committed\n    hint: return what outbox.InTx returns"}, "I11, "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg := soundConfig(t, lanesKind, dbtest.New(t, dbserver.MySQL))
			cfg.Patience = 4 * time.Second // some wait for what never comes
			c.spoil(&cfg)
			got := failure(t, func(t testing.TB) { outboxtest.Verify(t, cfg) })
			t.Log(got)
			if strings.Contains(got, "%!") || strings.Contains(got, "nil>") || strings.Contains(got, "  ,") {
				t.Error("the message has a hole")
			}
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("the message lacks %q", want)
				}
			}
			if c.notWant != "" && strings.Contains(got, c.notWant) {
				t.Errorf("the message has %q", c.notWant)
			}
			switch r, err := record.Read(cfg.Record); {
			case err == nil && r.Result == record.Pass:
				t.Error("the record says PASS")
			case err != nil && !errors.Is(err, os.ErrNotExist):
				t.Error(err)
			}
		})
	}
}
