package leasing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Origin is what all events of a service have in common.
type Origin struct {
	Source     string // who produces them
	SchemaBase string // URL of the folder of their schemas, with a slash at its end; may be empty
}

// dataSchema is where the schema of a payload is published: the name of the file is the
// one that outboxgen's export gives it.
func (o Origin) dataSchema(row Row) string {
	if o.SchemaBase == "" {
		return ""
	}
	return fmt.Sprintf("%s%s.v%d.schema.json", o.SchemaBase, row.EventType, row.SchemaVersion)
}

// NewEvent makes the event of a row.
func NewEvent(row Row, origin Origin) outbox.Event {
	event := outbox.Event{
		Key:      row.EventID,
		Attempts: int(row.Attempts),
		Envelope: outbox.Envelope{
			Source:           origin.Source,
			Type:             row.EventType,
			AggregateType:    row.AggregateType,
			AggregateID:      row.AggregateID,
			AggregateVersion: row.EventVersion,
			SchemaVersion:    int(row.SchemaVersion),
			DataSchema:       origin.dataSchema(row),
			Time:             time.UnixMicro(row.CreatedUs).UTC(),
			Data:             row.Payload,
		},
	}
	if row.LeaseOwner != "" {
		event.Repeat = outbox.RepeatLeaseExpired
	}
	var err error
	if event.Envelope.ID, err = outbox.ParseEventID(row.EventID); err != nil {
		event.Invalid = err
	}
	if len(row.Headers) > len("{}") {
		if err := json.Unmarshal(row.Headers, &event.Envelope.Headers); err != nil {
			event.Invalid = errors.New("the headers are not an object of strings")
		}
	}
	return event
}

// maxReason is the width of outbox_failure.reason, in characters.
const maxReason = 1024

// Failure returns what is kept of an outcome.
func Failure(o outbox.EventOutcome) RecordFailureParams {
	return RecordFailureParams{EventID: o.Key, Kind: o.Failure.String(), Reason: cut(o.Reason, maxReason)}
}

// DeleteFailures forgets the earlier errors of events that are published and deleted.
func DeleteFailures(ctx context.Context, tx *outbox.Tx, q Queries, b *outbox.Batch, published []string) error {
	tried := make(map[string]bool)
	for _, e := range b.Events {
		if e.Attempts > 0 {
			tried[e.Key] = true
		}
	}
	var keys []string
	for _, key := range published {
		if tried[key] {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	if err := q.DeleteFailures(ctx, tx, DeleteFailuresParams{EventIds: keys}); err != nil {
		return fmt.Errorf("delete failures: %w", err)
	}
	return nil
}

// cut returns at most limit characters of s, and only UTF-8.
func cut(s string, limit int) string {
	if !utf8.ValidString(s) {
		s = string([]rune(s)) // each bad byte becomes U+FFFD
	}
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit])
}
