// Package kafka carries outbox events over Apache Kafka and what speaks its protocol.
//
// A [Publisher] counts an event as published when the partition's leader has
// acknowledged it with acks=all: all replicas that are in sync have it, which are
// at least min.insync.replicas. That is "in their memory", not "on their disks":
// Kafka leaves flushing to the operating system and relies on replication
// (https://kafka.apache.org/documentation/#design_replicatedlog). [Ensure] checks the
// settings that this rests on.
//
// [Subscribe] reads as a member of a consumer group. It commits offsets itself, for
// each partition only up to the first record that isn't done with, so that whatever
// a consumer's transaction has not committed is delivered again.
//
// On the wire an event is a CloudEvents 1.0 event in the binary mode of the Kafka
// protocol binding
// (https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/kafka-protocol-binding.md):
// attributes in ce_ headers, the content type in content-type, the writer's headers
// beside them, the payload as the record's value. The record's key is the aggregate's
// id, so that one partition has all events of an aggregate, as long as the number of
// partitions stays.
package kafka
