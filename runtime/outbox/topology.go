package outbox

// Topology is where a service's events go and where its consumers read them,
// as events.yaml has it. Each broker's package takes from it what is its own.
type Topology struct {
	Service   string
	Events    []EventTopology    // in the order of the file
	Consumers []ConsumerTopology // in the order of the file
}

// EventTopology is where one event type goes.
type EventTopology struct {
	Type     string
	Stream   string // of NATS JetStream
	Exchange string // of RabbitMQ, a topic exchange
	Topic    string // of Kafka; the record's key is the aggregate's id
	Key      string // the subject on NATS and the routing key on RabbitMQ
}

// ConsumerTopology is where one consumer reads.
type ConsumerTopology struct {
	Name   string
	Queue  string   // the durable consumer on NATS and the queue on RabbitMQ
	Group  string   // the consumer group on Kafka
	Events []string // the event types that it handles, in the order of the file
}

// Event returns an event type's place.
func (t Topology) Event(eventType string) (EventTopology, bool) {
	for _, e := range t.Events {
		if e.Type == eventType {
			return e, true
		}
	}
	return EventTopology{}, false
}

// Consumer returns a consumer's place.
func (t Topology) Consumer(name string) (ConsumerTopology, bool) {
	for _, c := range t.Consumers {
		if c.Name == name {
			return c, true
		}
	}
	return ConsumerTopology{}, false
}
