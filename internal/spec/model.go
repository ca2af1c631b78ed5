// Package spec turns events.yaml into a checked model in which every node
// knows where it stands in the file.
package spec

import (
	"fmt"
	"time"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// Model is a whole events.yaml, checked: names are legal and unique, types
// resolve, references point at what exists.
type Model struct {
	File    string // the path as given to Load
	Service Name   // the CloudEvents source

	Go     GoConfig
	Outbox OutboxConfig
	SQL    SQLConfig
	Broker BrokerConfig
	Lint   LintConfig

	Exports ExportsConfig

	Types     []*Named    // in file order
	Events    []*Event    // in file order
	Consumers []*Consumer // in file order

	// GoTypes are the Go types of somebody else's that generated code uses, in the
	// order of the file: those of go.types, then those of fields.
	GoTypes []GoType
	Retired Retired // only in a lock
}

// Retired names what was published once and is gone. The names are never used again.
type Retired struct {
	Events, Consumers []Name
}

// Name is a string from the file with its place.
type Name struct {
	Text string
	Pos  diag.Pos
}

// GoConfig says where the Go package goes.
type GoConfig struct {
	Package   Name
	Out       Name             // folder, relative to the config file, slash separated
	Consumers Name             // folder of the consumers' stubs, likewise. Default "consumers"
	Types     map[Kind]*GoType // wire scalar -> custom Go type
}

// GoType is a Go type of somebody else's, used for a scalar or a named type.
type GoType struct {
	ImportPath string // "github.com/shopspring/decimal"
	Package    string // "decimal": the name it is imported by
	Ident      string // "Decimal"
	Pos        diag.Pos
}

// Ordering is the publishing order promised.
type Ordering string

// The orderings. OrderingAggregate is the default.
const (
	OrderingNone      Ordering = "none"      // relays lease rows
	OrderingAggregate Ordering = "aggregate" // relays lease lanes of aggregates
)

// LaneCount is how many lanes there are with OrderingAggregate. It bounds how many
// relays share the work. The lanes of written events are stored, so that it can't
// change while any wait.
const LaneCount = 64

// OutboxConfig is the outbox table's behaviour.
type OutboxConfig struct {
	Ordering      Ordering
	OrderingPos   diag.Pos      // zero where the file doesn't give it
	KeepPublished time.Duration // 0: delete at the mark. Default 168h
	TablePrefix   Name          // prepended to every table of ours; may be empty
}

// SQLConfig says what sqlc reads and where it is written.
type SQLConfig struct {
	Dialect string // "mysql"
	Schema  []Name // the user's own DDL files or folders, relative to the config file
	Queries Name   // folder for our queries. Default "queries"
	Config  Name   // sqlc's config file. Default "sqlc.yaml"
}

// ExportsConfig says what is written beside the Go code. Without the key in the file all
// of it is empty, and nothing is.
type ExportsConfig struct {
	Out     Name           // folder, relative to the config file, slash separated
	Formats []ExportFormat // in the order of the file. Default all

	// SchemaBase is the URL below which the JSON Schemas are published, with a slash at
	// its end. Messages carry it, with the file's name, as CloudEvents' dataschema. May be
	// empty.
	SchemaBase Name
}

// ExportFormat is one kind of files.
type ExportFormat string

// The formats of exports.
const (
	ExportJSONSchema ExportFormat = "jsonschema"
	ExportAsyncAPI   ExportFormat = "asyncapi"
	ExportEditor     ExportFormat = "editor"
	ExportMarkdown   ExportFormat = "markdown"
	ExportHTML       ExportFormat = "html"
)

// BrokerConfig is where events go unless they say it themselves. Names that the
// file doesn't give are the defaults, without a place.
type BrokerConfig struct {
	Stream   Name // of NATS JetStream. Default the service in upper case, with underscores for dashes
	Exchange Name // of RabbitMQ. Default the service
	Topic    Name // of Kafka. Default the service

	// Retention is how long the broker keeps a message, or delivers it again, at most.
	// It changes nothing at the broker: it is what consumers' Retain is compared with.
	// 0: not said.
	Retention time.Duration
}

// LintConfig says which advice of outboxgen lint is not wanted.
type LintConfig struct {
	Ignore []LintIgnore // in file order
}

// LintIgnore switches a rule off, for all or for some names.
type LintIgnore struct {
	Rule  Name
	All   bool
	Names []Name // of events, consumers, types, or fields behind one of these: "Money.amount"
}

// EventBroker is where one event goes.
type EventBroker struct {
	Stream, Exchange, Topic Name // default the file's

	Key Name // subject on NATS and routing key on RabbitMQ. Default "<service>.<event>"
}

// ConsumerBroker is where one consumer reads. Both default to "<service>.<consumer>".
type ConsumerBroker struct {
	Queue Name // durable consumer on NATS and queue on RabbitMQ
	Group Name // consumer group on Kafka
}

// Retry is what becomes of an event that fails.
type Retry struct {
	Attempts   int           // before it is parked. Default 10
	Backoff    time.Duration // the first wait, doubled each time. Default 1s
	MaxBackoff time.Duration // Default 5m
}

// Kind is the shape of a type.
type Kind string

// Scalars, then composites.
const (
	KindString    Kind = "string"
	KindBool      Kind = "bool"
	KindInt32     Kind = "int32"
	KindInt64     Kind = "int64"
	KindFloat64   Kind = "float64"
	KindDecimal   Kind = "decimal"
	KindUUID      Kind = "uuid"
	KindTimestamp Kind = "timestamp"
	KindDate      Kind = "date"
	KindDuration  Kind = "duration"
	KindBytes     Kind = "bytes"
	KindJSON      Kind = "json"

	KindList   Kind = "list"
	KindMap    Kind = "map"    // string keys
	KindEnum   Kind = "enum"   // named or inline
	KindStruct Kind = "struct" // named or inline
)

// Type is a resolved type.
type Type struct {
	Kind  Kind
	Elem  *Type  // of a list or a map
	Named *Named // of an enum or a struct: its definition (inline ones get one too)

	// Go is the Go type used in place of the generated one; nil when there is none.
	// A list or a map has none, its elements may.
	Go  *GoType
	Pos diag.Pos
}

// Innermost is the type of what a list or a map holds in the end.
func (t *Type) Innermost() *Type {
	for t.Elem != nil {
		t = t.Elem
	}
	return t
}

// String is the type as it is written in the file.
func (t *Type) String() string {
	switch {
	case t.Elem != nil:
		return fmt.Sprintf("%s<%s>", t.Kind, t.Elem)
	case t.Named != nil && !t.Named.Inline:
		return t.Named.Name.Text
	default:
		return string(t.Kind)
	}
}

// Named is an enum or a struct: declared under types:, or inline in a field,
// in which case its GoName is made of its owner's and the field's
// (OrderCancelledReason).
type Named struct {
	Name   Name // as written under types:; empty Text when inline
	GoName string
	Doc    string // lines, without control characters
	Enum   []EnumValue
	Fields []*Field
	Inline bool
	Go     *GoType // that stands for it everywhere, by go.types: no type is generated
	Pos    diag.Pos
}

// EnumValue is one value of an enum.
type EnumValue struct {
	Name   Name
	GoName string // always prefixed by the enum's: CurrencyEUR
}

// Field is one field of a struct or a payload.
type Field struct {
	Name       Name
	GoName     string
	Type       *Type
	Optional   bool
	Doc        string
	Deprecated string
	PII        bool
	Default    *Default // nil when not given
}

// Default is the value that a required field of a payload gets where a message of an
// older version lacks it.
type Default struct {
	JSON string // as it is encoded
	Pos  diag.Pos
}

// Event is one event type.
type Event struct {
	Name       Name // wire identity: "order.accepted"
	GoName     string
	Doc        string
	Deprecated string
	Aggregate  Aggregate
	Source     *Source // nil when not given
	Broker     EventBroker
	Versions   []*Version // of the payload's schema, ascending by number; at least one
	Retired    []int      // numbers of versions that were published and are gone; only in a lock
}

// Newest is the version that consumers are given, whatever was sent.
func (e *Event) Newest() *Version { return e.Versions[len(e.Versions)-1] }

// Aggregate names what the event is about. ID and Version are names of fields, which
// every version of the payload has.
type Aggregate struct {
	Type    Name
	ID      Name
	Version Name
}

// Version is one version of a payload's schema. Once messages of it may wait
// somewhere it is frozen: what may still change are optional fields that come, and
// enum values.
type Version struct {
	Number     int
	Listed     bool   // under versions:, and not the fields: of an event that has one version
	GoName     string // of the payload's struct: OrderAccepted, or OrderAcceptedV2 when Listed
	Doc        string // of the version alone
	Deprecated string // nobody writes it any more; the newest is never deprecated
	Fields     []*Field
	Reserved   []Name // names that no field of this version or a newer one has

	ID               *Field // that Aggregate.ID names: string, int32, int64 or uuid; required
	AggregateVersion *Field // that Aggregate.Version names: int32 or int64; required

	Upcast  *Upcast // how it is made of the version before; nil for the oldest
	Fixture string  // a payload as it was encoded when the version was locked; only in a lock
	Pos     diag.Pos
}

// SchemaFile is the name of the version's JSON Schema.
func (v *Version) SchemaFile(e *Event) string {
	return fmt.Sprintf("%s.v%d.schema.json", e.Name.Text, v.Number)
}

// Upcast is how a version is made of the one before it.
type Upcast struct {
	From   *Version
	Manual bool     // Go code of the user's has the last word
	Copied []*Copy  // fields that both have
	Filled []*Field // required fields that get their default
	Open   []*Field // required fields that only Go code can fill: none unless Manual
}

// Copy is a field whose value is taken over from the version before.
type Copy struct {
	From, To *Field
	Convert  bool // the Go types differ: an enum that got more values
	Default  bool // From is optional and To is not: the default stands in for an absent value
}

// Source says where the business fact lives.
type Source struct {
	Table       Name
	Request     []Name // the entry's idempotency key, one column or more
	EventID     Name
	AggregateID Name
	CreatedAt   Name

	// Rebuild is a file of SQL, relative to the config file and slash separated, that makes
	// the payload anew of the business row. May be empty.
	Rebuild Name

	Pos diag.Pos
}

// Consumer is one consumer of events.
type Consumer struct {
	Name    Name // identity in consumed_event: "notification-planner"
	GoName  string
	Package string // Go package of its stub: "notificationplanner"
	Doc     string
	Handles []*Event

	// Deprecated announces that the consumer will go, and says why: one that was
	// deprecated before may be removed.
	Deprecated string

	Retain time.Duration // how long its dedup rows are kept. Default 720h

	Concurrency int           // events that a subscription handles at a time. Default 1
	Timeout     time.Duration // of a handler's transaction. Default 20s
	Retry       Retry
	DropStale   bool // skip events older than what was applied of their aggregate. Default false
	Broker      ConsumerBroker
}
