// Package outboxtest has what tests of code that uses package outbox need: an
// in-memory [Broker] whose failures can be scripted; [RequireEvent], [RequireNoEvents] and
// [RequireRollback] for what a service has written; and [Verify], which breaks a service's own
// writers, relays and consumers in the places where events get lost, and records what came of it.
//
// The suite that a real broker's publisher and subscriber have to pass, as this
// one does, is in brokersuite.
package outboxtest
