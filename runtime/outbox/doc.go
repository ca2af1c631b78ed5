// Package outbox is the runtime behind the code that outboxgen generates: the
// transaction in which an event is written, the relay that carries events to a
// broker, and the consumer that applies each of them once.
//
// What it promises: an event written in a transaction that commits is published
// at least once, and each consumer's local effect happens once for an event id
// as long as its dedup row is kept. It never promises more; a broker may be
// handed the same event again, and does so under the same event id.
//
// The package knows no database and no broker. It sees a [Store], a [Publisher]
// and an [ErrorClassifier]; generated code and the packages beside this one
// supply them.
package outbox

// GeneratedAPIv1 is referred to by generated code, so that code of a generator
// that this runtime doesn't understand fails to compile.
const GeneratedAPIv1 = true
