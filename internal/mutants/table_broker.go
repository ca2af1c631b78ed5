package main

func rabbit(test string) target { return target{"runtime/broker/rabbitmq", test} }
func kafkaT(test string) target { return target{"runtime/broker/kafka", test} }
func natsT(test string) target  { return target{"runtime/broker/natsjs", test} }

// What a confirm and an acknowledgement mean on each broker.
var brokerMutants = []mutant{
	{
		name: "rabbitmq: returns are ignored", file: "runtime/broker/rabbitmq/link.go",
		old: "		oldest.returned = &r", new: "		_ = r",
		target: rabbit("^TestUnboundKey$"),
	},
	{
		name: "rabbitmq: returns are not read before a confirm", file: "runtime/broker/rabbitmq/link.go",
		old: "			l.drainReturns()\n			if !ok {", new: "			if !ok {",
		target: rabbit("^(TestOneUnroutableInAThousand|TestReturnsBeforeConfirms)$"),
	},
	{
		name: "rabbitmq: messages are not mandatory", file: "runtime/broker/rabbitmq/link.go",
		old: "l.channel.Publish(exchange, key, true, false, m)", new: "l.channel.Publish(exchange, key, false, false, m)",
		target: rabbit("^TestUnboundKey$"),
	},
	{
		name: "rabbitmq: a nack is a confirm", file: "runtime/broker/rabbitmq/link.go",
		old: "	case !c.Ack:\n		l.settle(s, nackedError(s))\n", new: "",
		target: rabbit("^TestFullQueue$"),
	},
	{
		name: "rabbitmq: messages are not persistent", file: "runtime/broker/rabbitmq/wire.go",
		old: "		DeliveryMode: amqp.Persistent,\n", new: "		DeliveryMode: amqp.Transient,\n",
		target: rabbit("^TestEncode$"),
	},
	{
		name: "rabbitmq: an event on its way when the connection is lost counts as not sent", file: "runtime/broker/rabbitmq/publisherrors.go",
		old: "	return outbox.PublishUnknown(fmt.Errorf(\"sent and not confirmed: %w\", cause))", new: "	return outbox.PublishUnavailable(fmt.Errorf(\"sent and not confirmed: %w\", cause))",
		target: rabbit("^TestCutWithConfirmsOutstanding$"),
	},
	{
		name: "kafka: the leader alone confirms", file: "runtime/broker/kafka/session.go",
		old: "kgo.RequiredAcks(kgo.AllISRAcks())", new: "kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite()",
		target: kafkaT("^TestNotEnoughReplicas$"),
	},
	{
		name: "kafka: offsets behind a gap are committed", file: "runtime/broker/kafka/tracker.go",
		old: "	if first := t.pending.Front(); first != nil {", new: "	if first := t.pending.Front(); first != nil && t.pending.Len() > 1<<30 {",
		target: kafkaT("^TestTracker$"),
	},
	{
		name: "kafka: an answer that leaves it open is a failure", file: "runtime/broker/kafka/publisherrors.go",
		old: "	return outbox.PublishUnknown(err)\n}\n\n// isRemade", new: "	return outbox.PublishFailed(err)\n}\n\n// isRemade",
		target: kafkaT("^TestProduceErrors$"),
	},
	{
		name: "natsjs: any stream's confirm counts", file: "runtime/broker/natsjs/publisher.go",
		old: "		m.Header[nats.ExpectedStreamHdr] = []string{stream}", new: "		_ = stream",
		target: natsT("^(TestWrongStream|TestAckOfWrongStream)$"),
	},
	{
		name: "natsjs: the library sends again by itself", file: "runtime/broker/natsjs/publisher.go",
		old: "jetstream.WithRetryAttempts(0)", new: "jetstream.WithRetryAttempts(3)",
		target: natsT("^TestMissingStream$"),
	},
}
