// Package outboxtest has what tests of code that uses package outbox need: an
// in-memory [Broker] whose failures can be scripted.
//
// The suite that a real broker's publisher and subscriber have to pass, as this
// one does, is in brokersuite.
package outboxtest
