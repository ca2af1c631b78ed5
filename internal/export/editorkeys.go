package export

import "github.com/outboxgen/outboxgen/internal/spec"

// The forms of names, as internal/spec has them, for what an editor underlines.
const (
	nameDotted  = `^[a-z][a-z0-9]*([.-][a-z][a-z0-9]*)*$`
	nameSnake   = `^[a-z][a-z0-9_]*$`
	namePascal  = `^[A-Z][A-Za-z0-9]*$`
	nameColumn  = `^[A-Za-z_][A-Za-z0-9_]*$`
	nameQueue   = `^[A-Za-z0-9._-]+$`
	goTypeText  = `^[^ ]+\.[A-Z][A-Za-z0-9_]*$`
	versionText = `^[1-9][0-9]{0,3}$`

	patternOurDuration = `^([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$`
)

func scalarNames() []string {
	return []string{
		string(spec.KindString), string(spec.KindBool), string(spec.KindInt32), string(spec.KindInt64),
		string(spec.KindFloat64), string(spec.KindDecimal), string(spec.KindUUID), string(spec.KindTimestamp),
		string(spec.KindDate), string(spec.KindDuration), string(spec.KindBytes), string(spec.KindJSON),
	}
}

var (
	anyText = object{{"type", "string"}}
	boolean = object{{"type", "boolean"}}
	counted = object{{"type", "integer"}, {"minimum", 1}, {"maximum", 10000}}
	docKey  = key{"doc", "What it means, for the reader of the code and of the catalogue.", anyText}
	oldKey  = key{"deprecated", "Why it should no longer be used, and what to use instead.", anyText}
)

func fileTable() table {
	return table{"file", []key{
		{"version", "The version of this file's grammar.", object{{"const", 1}}},
		{"service", "Who produces the events: the CloudEvents source, and the beginning of names at the broker.", named(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)},
		{"go", "Where the generated Go code goes.", ref("go")},
		{"outbox", "How the outbox table behaves.", ref("outbox")},
		{"sql", "What sqlc reads, and where it is written.", ref("sql")},
		{"broker", "Where events go at the broker unless they say it themselves.", ref("broker")},
		{"exports", "What is written for readers other than the Go compiler. Without it nothing is.", ref("exports")},
		{"lint", "Findings of outboxgen lint that are meant to be so.", ref("lint")},
		{"types", "Enums and structs that fields share, by name.", mapping(namePascal, ref("type"))},
		{"events", "The events, by the name under which they travel.", append(mapping(nameDotted, ref("event")), member{"minProperties", 1})},
		{"consumers", "The consumers, by the name under which their dedup rows are kept.", mapping(nameDotted, ref("consumer"))},
	}, []string{"version", "service", "go", "events"}, nil}
}

func editorTables() []table {
	return append(settingTables(), eventTables()...)
}

func settingTables() []table {
	return []table{
		{"go", []key{
			{"package", "Name of the generated package.", named(nameSnake)},
			{"out", "Its folder, from the folder of this file.", ref("path")},
			{"consumers", "Folder of the consumers' stubs, which are written once. Default consumers.", ref("path")},
			{"types", "Go types of your own for scalars and named types: decimal: github.com/shopspring/decimal.Decimal.", mapping(`.`, named(goTypeText))},
		}, []string{"package", "out"}, nil},
		{"outbox", []key{
			{"ordering", "aggregate: the events of one aggregate are published in order. none: in any order. Default aggregate.", oneOf("aggregate", "none")},
			{"keep_published", "How long a published event is kept, or none to delete it at once. Default 168h.", object{{"anyOf", []any{ref("duration"), oneOf("none")}}}},
			{"table_prefix", "Begins the name of every table of the outbox.", named(nameSnake)},
		}, nil, nil},
		{"sql", []key{
			{"dialect", "mysql: one output for MySQL and MariaDB.", oneOf("mysql")},
			{"schema", "Your own tables, files or folders, against which source: is checked.", listOrOne(ref("path"))},
			{"queries", "Folder of the queries that sqlc reads. Default queries.", ref("path")},
			{"config", "Configuration of sqlc. Default sqlc.yaml.", ref("path")},
		}, nil, nil},
		{"broker", []key{
			{"stream", "Stream of NATS JetStream. Default the service in upper case.", named(`^[A-Za-z0-9_-]+$`)},
			{"exchange", "Exchange of RabbitMQ. Default the service.", named(`^[A-Za-z0-9_.:-]+$`)},
			{"topic", "Topic of Kafka. Default the service.", named(nameQueue)},
			{"retention", "The longest time that it keeps or redelivers a message: lint compares the consumers' retain with it.", ref("duration")},
		}, nil, nil},
		{"lint", []key{
			{"ignore", "By the name of a rule: all, or the events, consumers, types or owner.field that it is not to report.",
				mapping(`^[a-z0-9-]+$`, listOrOne(anyText))},
		}, nil, nil},
		{"exports", []key{
			{"out", "Folder of the exports, from the folder of this file.", ref("path")},
			{"formats", "Which to write. Default all.", listOrOne(oneOf(formatNames()...))},
			{"schema_base", "URL below which the JSON Schemas are published. Messages carry it with the file's name as dataschema.", named(`^https?://[^/?#]+(/[^?#]*)?/$`)},
		}, []string{"out"}, nil},
	}
}

func formatNames() []string {
	var names []string
	for _, f := range spec.ExportFormats() {
		names = append(names, string(f))
	}
	return names
}

func eventTables() []table {
	goName := key{"go_name", "Its name in Go, where the usual one clashes.", named(namePascal)}
	fields := key{"fields", "Names and types.", ref("fields")}
	enum := key{"enum", "The values that it may have.", ref("enumValues")}
	return []table{
		{"type", []key{docKey, enum, fields, goName}, nil, []string{"enum", "fields"}},
		{"event", []key{
			docKey, oldKey,
			{"aggregate", "What the event is about.", ref("aggregate")},
			{"source", "Where the business fact lives: makes Reconcile, which tells whether an unknown commit happened.", ref("source")},
			{"fields", "The payload, short for versions with one of them.", ref("fields")},
			{"versions", "Every form of the payload that was ever sent, by number.", append(mapping(versionText, ref("version")), member{"minProperties", 1})},
			{"broker", "Where this event goes, if elsewhere.", ref("eventBroker")},
			goName,
		}, []string{"aggregate"}, []string{"fields", "versions"}},
		{"aggregate", []key{
			{"type", "Its kind, such as order.", named(`^[a-z][a-z0-9_-]*$`)},
			{"id", "The field with its id.", named(nameSnake)},
			{"version", "The field that counts its changes.", named(nameSnake)},
		}, []string{"type", "id", "version"}, nil},
		{"source", []key{
			{"table", "The table of the business fact.", named(nameColumn)},
			{"request", "The entry's idempotency key, one column or more, unique in the table.", listOrOne(named(nameColumn))},
			{"event_id", "The column that keeps the event's id.", named(nameColumn)},
			{"aggregate_id", "The column of the aggregate's id.", named(nameColumn)},
			{"created_at", "The column of when it happened.", named(nameColumn)},
			{"rebuild", "A file with one SELECT that makes the payload anew of an event id, for outboxgen reconcile --republish.", ref("path")},
		}, []string{"table", "request", "event_id", "aggregate_id", "created_at"}, nil},
		{"version", []key{
			docKey, oldKey,
			{"upcast", "manual: Go code makes this version of the one before.", oneOf("manual")},
			{"reserved", "Names of fields that were dropped, and that no later version may use.", listOrOne(named(nameSnake))},
			fields,
		}, []string{"fields"}, nil},
		{"field", []key{
			{"type", "A scalar, list<T>, map<T> or a type of types:.", ref("typeText")},
			enum, fields, docKey, oldKey,
			{"optional", "The long form of the question mark behind the name.", boolean},
			{"pii", "Personal: kept out of logs, errors and listings.", boolean},
			{"default", "What the field gets where a message of an older version lacks it.", object{{"type", []string{"string", "number", "boolean", "array", "object"}}}},
			goName,
			{"go_type", "A Go type of your own for this field.", named(goTypeText)},
		}, nil, []string{"type", "enum", "fields"}},
		{"eventBroker", []key{
			{"stream", "Stream of NATS JetStream.", named(`^[A-Za-z0-9_-]+$`)},
			{"exchange", "Exchange of RabbitMQ.", named(`^[A-Za-z0-9_.:-]+$`)},
			{"topic", "Topic of Kafka.", named(nameQueue)},
			{"key", "Subject on NATS and routing key on RabbitMQ. Default service and event, with a dot between.", named(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)},
		}, nil, nil},
		{"consumer", []key{
			docKey,
			{"handles", "The events that it handles.", object{{"type", "array"}, {"minItems", 1}, {"uniqueItems", true}, {"items", named(nameDotted)}}},
			{"retain", "How long its dedup rows are kept: longer than any message may be redelivered. Default 720h.", ref("duration")},
			{"concurrency", "Events that a subscription handles at a time, those of one aggregate never. Default 1.", counted},
			{"timeout", "Of a handler's transaction. Default 20s.", ref("duration")},
			{"retry", "What becomes of an event that fails.", ref("retry")},
			{"stale", "drop: skip events older than what was applied of their aggregate. Default apply.", oneOf("apply", "drop")},
			{"broker", "Where it reads, if elsewhere.", ref("consumerBroker")},
			oldKey, goName,
		}, []string{"handles"}, nil},
		{"retry", []key{
			{"attempts", "Before the event is parked. Default 10.", counted},
			{"backoff", "The first wait, doubled each time. Default 1s.", ref("duration")},
			{"max_backoff", "The longest wait. Default 5m.", ref("duration")},
		}, nil, nil},
		{"consumerBroker", []key{
			{"queue", "Durable consumer on NATS and queue on RabbitMQ.", named(nameQueue)},
			{"group", "Consumer group on Kafka.", named(nameQueue)},
		}, nil, nil},
	}
}
