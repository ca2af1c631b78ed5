// Package rabbitmq carries outbox events over RabbitMQ, 3.10 or later, by AMQP 0-9-1.
//
// A [Publisher] counts an event as published when the broker has confirmed it and has not
// returned it before: it was routed to at least one queue, and each durable queue that it
// was routed to has it, a quorum queue on a majority of its members. [Subscribe]
// acknowledges a message when the consumer's transaction has committed. A message that
// failed waits in a queue of its own until it is due and then comes back; nothing is
// requeued in a loop. [Ensure] makes, or verifies, the exchanges and queues of a topology.
//
// On the wire an event is a CloudEvents 1.0 event in the binary mode of the AMQP protocol
// binding (https://github.com/cloudevents/spec/blob/main/cloudevents/bindings/amqp-protocol-binding.md),
// as RabbitMQ maps AMQP 1.0 to AMQP 0-9-1: attributes in the headers cloudEvents:…,
// the writer's headers beside them, datacontenttype as the content type, the payload as
// the body. The message id is the event id.
package rabbitmq
