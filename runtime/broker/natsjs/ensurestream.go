package natsjs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// streamNeed is what a topology needs of one stream.
type streamNeed struct {
	name     string
	subjects []string // of the events, sorted
	create   []string // the stream's own when it is created
}

// streamsOf returns the topology's streams, by name. A stream that is made gets all
// subjects of a first token, so that it takes a new event type, too; exact ones where
// another stream has some of that token.
func streamsOf(t outbox.Topology) ([]streamNeed, error) {
	subjects := make(map[string][]string)
	owners := make(map[string]map[string]bool) // by first token
	for _, e := range t.Events {
		if err := checkPlace(e); err != nil {
			return nil, err
		}
		subjects[e.Stream] = append(subjects[e.Stream], e.Key)
		token := firstToken(e.Key)
		if owners[token] == nil {
			owners[token] = make(map[string]bool)
		}
		owners[token][e.Stream] = true
	}
	var all []streamNeed
	for name, keys := range subjects {
		slices.Sort(keys)
		s := streamNeed{name: name, subjects: slices.Compact(keys)}
		for _, key := range s.subjects {
			if token := firstToken(key); token != key && len(owners[token]) == 1 {
				key = token + ".>"
			}
			s.create = append(s.create, key)
		}
		slices.Sort(s.create)
		s.create = slices.Compact(s.create)
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b streamNeed) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

func firstToken(subject string) string {
	token, _, _ := strings.Cut(subject, ".")
	return token
}

// stream verifies or creates one stream.
func (e *ensuring) stream(ctx context.Context, need streamNeed) error {
	d := differences{thing: "stream " + need.name}
	stream, err := e.js.Stream(ctx, need.name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound) && e.cfg.Create:
		_, err := e.js.CreateStream(ctx, jetstream.StreamConfig{
			Name: need.name, Subjects: need.create, Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew,
			Replicas: max(e.cfg.Replicas, 1), Duplicates: e.cfg.Duplicates, MaxAge: e.cfg.MaxAge,
		})
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another process was faster
			return e.stream(ctx, need)
		}
		if err == nil {
			e.report.Created = append(e.report.Created, d.thing)
		}
		return err
	case errors.Is(err, jetstream.ErrStreamNotFound):
		e.missing[need.name] = true
		d.add("existence", "none", fmt.Sprintf("a stream with subjects %v", need.create))
	case err != nil:
		return err
	default:
		have := stream.CachedInfo().Config
		e.retention[need.name] = have.Retention
		e.compareStream(&d, need, have)
		for _, note := range streamNotes(have) {
			e.report.Notes = append(e.report.Notes, d.thing+": "+note)
		}
	}
	e.differences = append(e.differences, d.all...)
	return nil
}

func (e *ensuring) compareStream(d *differences, need streamNeed, have jetstream.StreamConfig) {
	for _, subject := range need.subjects {
		if !slices.ContainsFunc(have.Subjects, func(pattern string) bool { return covers(pattern, subject) }) {
			d.add("subjects", have.Subjects, subject+" among them")
		}
	}
	compareTransform(d, source{subjects: need.subjects}, have.SubjectTransform)
	if limit := have.ConsumerLimits.InactiveThreshold; limit > 0 && have.Retention != jetstream.LimitsPolicy {
		d.add("consumer limit inactive_threshold", limit, "none, with retention "+strings.ToLower(have.Retention.String()))
	}
	switch {
	case have.Mirror != nil:
		d.add("mirror", "of "+have.Mirror.Name, "none: nothing can be published to a mirror")
	case have.Sealed:
		d.add("sealed", true, false)
	}
	if have.NoAck {
		d.add("no_ack", true, "false: a stream has to confirm")
	}
	if e.cfg.Replicas > 0 && have.Replicas < e.cfg.Replicas {
		d.add("replicas", have.Replicas, fmt.Sprint("at least ", e.cfg.Replicas))
	}
	if e.cfg.Duplicates > 0 && have.Duplicates != e.cfg.Duplicates {
		d.add("duplicate window", have.Duplicates, e.cfg.Duplicates)
	}
}

// streamNotes says what a stream's settings let go of.
func streamNotes(c jetstream.StreamConfig) (notes []string) {
	add := func(when bool, format string, args ...any) {
		if when {
			notes = append(notes, fmt.Sprintf(format, args...))
		}
	}
	add(c.Retention == jetstream.InterestPolicy,
		"retention interest: a message is dropped when all durable consumers that exist have handled it; one that is made later gets nothing older")
	add(c.Retention == jetstream.WorkQueuePolicy,
		"retention workqueue: a message is dropped when one consumer has handled it; a second consumer of its subject is refused")
	add(c.MaxAge > 0, "max_age %v: what no consumer has handled by then is dropped", c.MaxAge)
	drops := c.Discard == jetstream.DiscardOld
	add(drops && c.MaxMsgs > 0, "max_msgs %d and discard old: the oldest messages are dropped, handled or not", c.MaxMsgs)
	add(drops && c.MaxBytes > 0, "max_bytes %d and discard old: the oldest messages are dropped, handled or not", c.MaxBytes)
	add(c.MaxMsgsPerSubject > 0 && (drops || !c.DiscardNewPerSubject),
		"max_msgs_per_subject %d: the oldest messages of an event type are dropped, handled or not", c.MaxMsgsPerSubject)
	add(c.Retention == jetstream.LimitsPolicy && c.ConsumerLimits.InactiveThreshold > 0,
		"consumer limit inactive_threshold %v: a consumer is deleted when nobody reads it for so long, and made anew begins at the stream's start", c.ConsumerLimits.InactiveThreshold)
	add(c.Storage == jetstream.MemoryStorage, "storage memory: a restart of its servers loses what it holds")
	add(c.Replicas <= 1, "replicas 1: a confirm is the word of one server, which by default flushes to disk every two minutes (sync_interval)")
	add(c.MaxMsgSize > 0, "max_msg_size %d: a larger event is rejected for good", c.MaxMsgSize)
	return notes
}

// covers reports whether a stream's subject, perhaps with wildcards, takes another one.
func covers(pattern, subject string) bool {
	for pattern != "" {
		var want, have string
		var more bool
		want, pattern, _ = strings.Cut(pattern, ".")
		if want == ">" {
			return subject != ""
		}
		have, subject, more = strings.Cut(subject, ".")
		if have == "" || want != "*" && want != have || (pattern != "") != more {
			return false
		}
	}
	return subject == ""
}
