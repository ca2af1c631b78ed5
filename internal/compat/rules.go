package compat

// Rule is what a change may break.
type Rule string

// The rules. Those of operations can be accepted: see Acceptable.
const (
	EventRemoved        Rule = "event-removed"
	EventNameReused     Rule = "event-name-reused"
	AggregateChanged    Rule = "aggregate-changed"
	VersionRemoved      Rule = "version-removed"
	VersionNumberReused Rule = "version-number-reused"
	ReservedRemoved     Rule = "reserved-removed"
	FieldRemoved        Rule = "field-removed"
	FieldTypeChanged    Rule = "field-type-changed"
	RequiredFieldAdded  Rule = "required-field-added"
	FieldMadeRequired   Rule = "field-made-required"
	FieldMadeOptional   Rule = "field-made-optional"
	EnumValueRemoved    Rule = "enum-value-removed"
	DefaultChanged      Rule = "default-changed"
	UpcastChanged       Rule = "upcast-changed"
	ConsumerRemoved     Rule = "consumer-removed"
	ConsumerNameReused  Rule = "consumer-name-reused"
	ConsumerHandlesLess Rule = "consumer-handles-less"

	ServiceChanged     Rule = "service-changed"
	OrderingChanged    Rule = "ordering-changed"
	TablePrefixChanged Rule = "table-prefix-changed"
	RouteChanged       Rule = "route-changed"
	QueueChanged       Rule = "queue-changed"
)

// Acceptable are the rules about operations rather than about what is read: whoever
// has moved the queues or the tables may say so.
func Acceptable() []Rule {
	return []Rule{ServiceChanged, OrderingChanged, TablePrefixChanged, RouteChanged, QueueChanged}
}

// Rules are all of them.
func Rules() []Rule {
	return append([]Rule{
		EventRemoved, EventNameReused, AggregateChanged, VersionRemoved, VersionNumberReused, ReservedRemoved,
		FieldRemoved, FieldTypeChanged, RequiredFieldAdded, FieldMadeRequired, FieldMadeOptional, EnumValueRemoved,
		DefaultChanged, UpcastChanged, ConsumerRemoved, ConsumerNameReused, ConsumerHandlesLess,
	}, Acceptable()...)
}
