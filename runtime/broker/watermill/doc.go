// Package watermill carries outbox events over any Pub/Sub of Watermill
// (https://watermill.io): Redis streams, Amazon SQS, Google Cloud Pub/Sub and others.
//
// Watermill's contract doesn't say what it means that Publish returned nil: "Publish
// can be synchronous or asynchronous". So this package can't vouch for a confirm, as
// those for one broker do. Whoever makes a [Publisher] states that the wrapped one is
// synchronous, by [PublisherConfig.Synchronous], and what is behind it.
// docs/brokers/watermill.md goes through the better-known ones.
//
// Nor does an error of Publish say whether the broker has the message: it counts as
// unknown unless [PublisherConfig.Classify] knows better.
//
// On the wire an event is a CloudEvents 1.0 event in binary mode, in the names of the
// Kafka protocol binding
// (https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/kafka-protocol-binding.md):
// attributes in metadata with the prefix ce_, datacontenttype as content-type, the
// writer's headers beside them, the payload as the payload. The message's UUID is the
// event id. A message in structured mode is read, too.
package watermill
