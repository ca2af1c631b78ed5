package ops

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// redeliverBatch is how many events are read, with their payloads, and written together.
const redeliverBatch = 20

// RedeliverResult is what became of a delivery that somebody wants to be made again. Done
// means that it was asked for: the consumer's processes carry it out.
type RedeliverResult = Result

// redeliverOptions say how deliveries are made again.
type redeliverOptions struct {
	pace      Pace   // spreads out when they are due
	operation string // for the audit. Defaults to republish.delivery
	reason    string // for the audit, and for parked_event. May be empty

	// force delivers what the consumer is done with too: a dedup row that says applied, skipped or
	// discarded is made that of a parked event. Its effect then happens a second time.
	force bool

	// seen are the dedup rows that force may change, by their ids, as somebody saw them: of two
	// people who force the same one, one has luck. Defaults to those that are there at the beginning.
	seen map[uuid.UUID]DedupRow
}

// DedupRow is what a consumer has written down of an event it is done with.
type DedupRow struct {
	ID      int64 // a later row of the same event has another one
	Outcome outbox.Handling
	At      time.Time
}

// dedupConstraint is what refuses a second dedup row.
func (s *Service) dedupConstraint() string { return s.key("uq_", "consumed_event_identity") }

// redeliver makes the delivery of published events to one consumer anew, past the broker:
// nothing changes in the outbox. In one transaction, in the consumer's database, an event
// gets the dedup row and the row of a parked event, and a redrive is asked for. However many
// people do it at once, and whatever the broker delivers meanwhile, it is handed to the handler once.
func (s *Service) redeliver(ctx context.Context, consumer string, ids []uuid.UUID, opts redeliverOptions) ([]RedeliverResult, error) {
	if s.consumer(consumer) == nil {
		return nil, s.noConsumer(consumer)
	}
	if opts.operation == "" {
		opts.operation = opRepublishDelivery
	}
	if opts.force && opts.seen == nil {
		opts.seen = map[uuid.UUID]DedupRow{}
		for chunk := range slices.Chunk(ids, 500) {
			if err := s.readDedup(ctx, s.inbox(consumer), consumer, texts(chunk), func(id string, row DedupRow) {
				if event, err := uuid.Parse(id); err == nil {
					opts.seen[event] = row
				}
			}); err != nil {
				return nil, err
			}
		}
	}
	asked := 0
	var results []RedeliverResult
	for batch := range slices.Chunk(ids, redeliverBatch) {
		stored, err := s.readStored(ctx, batch)
		if err != nil {
			return results, err
		}
		var done []RedeliverResult
		var n int
		err = change(ctx, s.inbox(consumer), func(tx *outbox.Tx) error {
			done, n = make([]RedeliverResult, 0, len(batch)), 0
			for _, id := range batch {
				note, err := s.redeliverOne(ctx, tx, consumer, id, stored[id], time.Duration(asked+n)*opts.pace.interval(), opts)
				if err != nil {
					return err
				}
				if note == "" {
					n++
				}
				done = append(done, RedeliverResult{EventID: id, Consumer: consumer, Done: note == "", Note: note})
			}
			return nil
		})
		if err != nil {
			return results, fmt.Errorf("make deliveries to %s anew: %w", consumer, err)
		}
		asked += n
		results = append(results, done...)
		if opts.pace.Progress != nil {
			opts.pace.Progress(len(results), len(ids))
		}
	}
	return results, nil
}

// redeliverOne asks for one delivery in a transaction. The note says why it did not.
func (s *Service) redeliverOne(ctx context.Context, tx *outbox.Tx, consumer string, id uuid.UUID, e storedEvent, after time.Duration, opts redeliverOptions) (note string, err error) {
	if note := e.undeliverable(); note != "" {
		return note, nil
	}
	if note, err = s.claimDedup(ctx, tx, consumer, id, opts); err != nil || note != "" {
		return note, err
	}
	reason := opts.reason
	if reason == "" {
		reason = "to be delivered again, as asked for by " + s.operator
	}
	row := outbox.RedeliveryRow(consumer, e.envelope, reason)
	_, err = tx.ExecContext(ctx, s.query(`INSERT INTO {parked_event} (consumer_name, event_id, event_type, kind, reason, attempts, attributes, headers, body, parked_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, `+now+`)
ON DUPLICATE KEY UPDATE kind = VALUES(kind), reason = VALUES(reason), parked_at = VALUES(parked_at)`),
		row.ConsumerName, row.EventID, row.EventType, row.Kind, row.Reason, row.Attempts, string(row.Attributes), string(row.Headers), row.Body)
	if err != nil {
		return "", fmt.Errorf("write the event for the consumer: %w", quiet(s.inbox(consumer), err))
	}
	if _, err := s.insertRedrive(ctx, tx, consumer, id, after); err != nil {
		return "", fmt.Errorf("ask for its delivery: %w", err)
	}
	return "", s.write(ctx, tx, record{opts.operation, consumer, id.String(), opts.reason})
}

// claimDedup makes an event one that the consumer has not processed but parked. The note
// says why that can't be.
func (s *Service) claimDedup(ctx context.Context, tx *outbox.Tx, consumer string, id uuid.UUID, opts redeliverOptions) (note string, err error) {
	if was, there := opts.seen[id]; there && opts.force {
		if was.Outcome == outbox.Parked {
			return "parked: ask for its redrive", nil
		}
		done, err := tx.ExecContext(ctx, s.query("UPDATE {consumed_event} SET outcome = 4 WHERE id = ? AND consumer_name = ? AND event_id = ? AND outcome IN (1, 3, 5)"), was.ID, consumer, id.String())
		if err != nil {
			return "", fmt.Errorf("change the dedup row: %w", err)
		}
		n, err := done.RowsAffected()
		if err == nil && n == 0 {
			note = "already processed: somebody else was first"
		}
		return note, err
	}
	_, err = tx.ExecContext(ctx, s.query("INSERT INTO {consumed_event} (consumer_name, event_id, outcome, consumed_at) VALUES (?, ?, 4, "+now+")"), consumer, id.String())
	if err == nil {
		return "", nil
	}
	if info := s.inbox(consumer).Classify(err); info.Fault == outbox.FaultDuplicate && info.Constraint == s.dedupConstraint() {
		return "already processed: it was applied, parked or asked for meanwhile", nil
	}
	return "", fmt.Errorf("insert the dedup row: %w", err)
}

// readDedup reads a consumer's dedup rows of events.
func (s *Service) readDedup(ctx context.Context, db outbox.DBTX, consumer string, ids []string, row func(id string, r DedupRow)) error {
	if len(ids) == 0 {
		return nil
	}
	places, args := in(ids)
	query := s.query("SELECT event_id, id, outcome, " + micros("consumed_at") + " FROM {consumed_event} FORCE INDEX ({uq_:consumed_event_identity}) WHERE consumer_name = ? AND event_id IN (" + places + ")")
	err := each(ctx, db, query, append([]any{consumer}, args...), func(rows *sql.Rows) error {
		var id string
		var r DedupRow
		var us int64
		if err := rows.Scan(&id, &r.ID, &r.Outcome, &us); err != nil {
			return err
		}
		r.At = time.UnixMicro(us).UTC()
		row(id, r)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the dedup rows of %s: %w", consumer, err)
	}
	return nil
}

// storedEvent is a row of the outbox as it goes to a consumer. No part of it is shown.
type storedEvent struct {
	there    bool
	status   int
	invalid  error
	envelope outbox.Envelope
}

// undeliverable says why an event can't be delivered past the broker.
func (e storedEvent) undeliverable() string {
	switch {
	case !e.there:
		return "the outbox has no row of it any more: its payload is gone, and it can't be delivered again"
	case e.invalid != nil:
		return "its row can't be read: " + e.invalid.Error()
	case e.status == statusPending:
		return "not published yet: a relay will deliver it"
	case e.status == statusDead:
		return "dead, and never published: dead redrive delivers it"
	case e.status != statusPublished:
		return "discarded, and never published: dead redrive --discarded delivers it"
	}
	return ""
}

// readStored reads events with their payloads, to hand them on.
func (s *Service) readStored(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]storedEvent, error) {
	out := map[uuid.UUID]storedEvent{}
	places, args := in(texts(ids))
	query := s.query(`SELECT event_id, status, event_type, aggregate_type, aggregate_id, event_version, schema_version,
  ` + micros("created_at") + `, headers, payload
FROM {outbox_event} FORCE INDEX (PRIMARY) WHERE event_id IN (` + places + ")")
	err := each(ctx, s.outbox, query, args, func(rows *sql.Rows) error {
		var id string
		var us int64
		var headers, payload []byte
		e := storedEvent{there: true, envelope: outbox.Envelope{Source: s.model.Service.Text}}
		v := &e.envelope
		if err := rows.Scan(&id, &e.status, &v.Type, &v.AggregateType, &v.AggregateID, &v.AggregateVersion, &v.SchemaVersion, &us, &headers, &payload); err != nil {
			return err
		}
		v.ID, e.invalid = outbox.ParseEventID(id)
		v.Time, v.Data, v.DataSchema = time.UnixMicro(us).UTC(), payload, s.dataSchema(v.Type, v.SchemaVersion)
		if json.Unmarshal(headers, &v.Headers) != nil {
			e.invalid = errors.New("the headers are not an object of strings")
		}
		out[v.ID] = e
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	return out, nil
}

// dataSchema is where the schema of a payload is published, as relays say it; empty where it isn't.
func (s *Service) dataSchema(event string, version int) string {
	base := s.model.Exports.SchemaBase.Text
	for _, e := range s.model.Events {
		if e.Name.Text != event || base == "" {
			continue
		}
		for _, v := range e.Versions {
			if v.Number == version {
				return base + v.SchemaFile(e)
			}
		}
	}
	return ""
}

// quietError is an error of the server's about a row that has a payload, by its number alone: its
// text might repeat a part of that.
type quietError struct {
	code  int
	cause error
}

func (e *quietError) Error() string { return fmt.Sprintf("database error %d", e.code) }

func (e *quietError) Unwrap() error { return e.cause }

func quiet(db *outbox.DB, err error) error {
	if info := db.Classify(err); info.Code != 0 {
		return &quietError{info.Code, err}
	}
	return err
}
