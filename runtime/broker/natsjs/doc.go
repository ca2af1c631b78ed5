// Package natsjs carries outbox events over NATS JetStream.
//
// A [Publisher] counts an event as published when the stream that the topology
// names for it has acknowledged it, and [Subscribe] acknowledges a message
// when the consumer's transaction has committed. [Ensure] verifies, or creates, the
// streams and durable consumers of a topology. An acknowledgement of
// JetStream means "stored by the stream's replicas", not "on the disk": by
// default a server flushes every two minutes
// (https://github.com/nats-io/nats-server/issues/7564).
//
// On the wire an event is a CloudEvents 1.0 event in the binary mode of the NATS
// protocol binding, 1.0.3
// (https://github.com/cloudevents/spec/blob/main/cloudevents/bindings/nats-protocol-binding.md):
// attributes in percent-encoded ce- headers, the writer's headers beside them,
// the payload as the body. The structured mode is read, too. Nats-Msg-Id is the event id, so that the stream drops
// a repeat inside its duplicate window. That is a help only: the window is two
// minutes by default and isn't extended by a repeat
// (https://github.com/nats-io/nats-server/issues/7302).
package natsjs
