// Package ops looks into the tables of a running service, and mends what is in them. It is
// what the commands of outboxgen and its page share. It reads no payload: what it returns
// may be shown to anybody who may see event ids.
package ops

import (
	"database/sql"
	"fmt"
	"os"
	"os/user"
	"strings"

	"github.com/outboxgen/outboxgen/internal/spec"
	"github.com/outboxgen/outboxgen/runtime/mysqlerr"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// now is UTC_TIMESTAMP(6), as the service's own statements have it.
const now = "UTC_TIMESTAMP(6)"

// Service is a service's outbox and its consumers, in the databases where they are.
type Service struct {
	model     *spec.Model
	outbox    *outbox.DB
	consumers map[string]*outbox.DB // those whose tables are not beside the outbox
	operator  string
}

// Databases are where a service's tables are.
type Databases struct {
	Outbox *sql.DB

	// Consumers are the databases of the consumers that don't keep their tables beside the outbox,
	// by name.
	Consumers map[string]*sql.DB
}

// New returns the service of a model.
func New(m *spec.Model, in Databases) (*Service, error) {
	s := &Service{model: m, outbox: outbox.NewDB(in.Outbox, mysqlerr.Classifier{}), consumers: map[string]*outbox.DB{}, operator: Operator()}
	pools := map[*sql.DB]*outbox.DB{in.Outbox: s.outbox} // each database once
	for name, db := range in.Consumers {
		if s.consumer(name) == nil {
			return nil, s.noConsumer(name)
		}
		if pools[db] == nil {
			pools[db] = outbox.NewDB(db, mysqlerr.Classifier{})
		}
		s.consumers[name] = pools[db]
	}
	return s, nil
}

// Operator is who runs this process, for the audit: user@host.
func Operator() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}

// Model is the events.yaml of the service.
func (s *Service) Model() *spec.Model { return s.model }

// table is the name of one of our tables or views.
func (s *Service) table(name string) string { return s.model.Outbox.TablePrefix.Text + name }

// key is the name of one of our keys or constraints, whose kind is ix_ or uq_.
func (s *Service) key(kind, name string) string {
	return kind + s.model.Outbox.TablePrefix.Text + name
}

// lanes reports `ordering: aggregate`.
func (s *Service) lanes() bool { return s.model.Outbox.Ordering == spec.OrderingAggregate }

// query puts our names into a statement: {outbox_event} is a table, {ix_:outbox_event_claim} a key.
func (s *Service) query(text string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		name, after, _ := strings.Cut(rest, "}")
		if kind, key, isKey := strings.Cut(name, ":"); isKey {
			b.WriteString(s.key(kind, key))
		} else {
			b.WriteString(s.table(name))
		}
		text = after
	}
}

// inbox is the database that has a consumer's tables.
func (s *Service) inbox(consumer string) *outbox.DB {
	if db, ok := s.consumers[consumer]; ok {
		return db
	}
	return s.outbox
}

func (s *Service) consumer(name string) *spec.Consumer {
	for _, c := range s.model.Consumers {
		if c.Name.Text == name {
			return c
		}
	}
	return nil
}

// NotKnownError names something that events.yaml, or a table, does not have.
type NotKnownError struct {
	What string   // "consumer", "event type"
	Name string   // as it was asked for
	Have []string // what there is instead; may be empty
}

func (e *NotKnownError) Error() string { return fmt.Sprintf("no %s %q", e.What, e.Name) }

func (s *Service) noConsumer(name string) error {
	e := &NotKnownError{What: "consumer", Name: name}
	for _, c := range s.model.Consumers {
		e.Have = append(e.Have, c.Name.Text)
	}
	return e
}

// ident quotes a name of the user's, which may be a reserved word.
func ident(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
