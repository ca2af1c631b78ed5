package spec

import (
	"fmt"
	"strings"
	"time"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// readBroker reads where events go unless they say it themselves.
func (c *checker) readBroker(top object) {
	b := &c.model.Broker
	if e, ok := top.vals["broker"]; ok {
		if o, ok := c.object(e.key, e.val, "broker", "stream", "exchange", "topic", "retention"); ok {
			c.brokerPlace(o, &b.Stream, &b.Exchange, &b.Topic)
			if n := c.optional(o, "retention"); n != nil {
				b.Retention = c.duration(n, "broker.retention", "write how long a message can come back at most, such as 168h, or leave it out")
			}
		}
	}
	service := c.model.Service.Text
	orText(&b.Stream, strings.ToUpper(strings.ReplaceAll(service, "-", "_")))
	orText(&b.Exchange, service)
	orText(&b.Topic, service)
}

func (c *checker) eventBroker(o object, ev *Event, what string) {
	if e, ok := o.vals["broker"]; ok {
		if o, ok := c.object(e.key, e.val, "broker of "+what, "stream", "exchange", "topic", "key"); ok {
			c.brokerPlace(o, &ev.Broker.Stream, &ev.Broker.Exchange, &ev.Broker.Topic)
			c.brokerName(o, "key", keyName, &ev.Broker.Key)
		}
	}
	b := c.model.Broker
	orText(&ev.Broker.Stream, b.Stream.Text)
	orText(&ev.Broker.Exchange, b.Exchange.Text)
	orText(&ev.Broker.Topic, b.Topic.Text)
	orText(&ev.Broker.Key, c.model.Service.Text+"."+ev.Name.Text)
}

func (c *checker) consumerBroker(o object, con *Consumer, what string) {
	if e, ok := o.vals["broker"]; ok {
		if o, ok := c.object(e.key, e.val, "broker of "+what, "queue", "group"); ok {
			c.brokerName(o, "queue", queueName, &con.Broker.Queue)
			c.brokerName(o, "group", groupName, &con.Broker.Group)
		}
	}
	// Brokers are shared: another service may have a consumer of the same name.
	own := c.model.Service.Text + "." + con.Name.Text
	orText(&con.Broker.Queue, own)
	orText(&con.Broker.Group, own)
}

func (c *checker) brokerPlace(o object, stream, exchange, topic *Name) {
	c.brokerName(o, "stream", streamName, stream)
	c.brokerName(o, "exchange", exchangeName, exchange)
	c.brokerName(o, "topic", topicName, topic)
}

// brokerName reads a name. Those that begin with "amq." are RabbitMQ's own and those of topics
// that begin with "__" are Kafka's; a Kafka topic of dots alone would be a folder.
func (c *checker) brokerName(o object, key string, rule nameRule, into *Name) {
	n := c.optional(o, key)
	if n == nil {
		return
	}
	name, ok := c.name(n, rule)
	switch {
	case !ok:
		return
	case strings.HasPrefix(strings.ToLower(name.Text), "amq.") && (key == "exchange" || key == "queue"):
		c.problem(n, "bad-name", fmt.Sprintf("%s %s is not allowed", rule.what, quote(name.Text)), `names that begin with "amq." are RabbitMQ's own`)
	case key == "topic" && strings.HasPrefix(name.Text, "__"):
		c.problem(n, "bad-name", fmt.Sprintf("%s %s is not allowed", rule.what, quote(name.Text)), `topics that begin with "__" are Kafka's own`)
	case key == "topic" && strings.Trim(name.Text, ".") == "":
		c.problem(n, "bad-name", fmt.Sprintf("%s %s is not allowed", rule.what, quote(name.Text)), "use more than dots")
	}
	*into = name
}

func orText(n *Name, text string) {
	if n.Text == "" {
		n.Text = text
	}
}

// checkBroker reports names that would get in each other's way.
func (c *checker) checkBroker() {
	keys := brokerNames{"key", "a consumer of one of the events would be sent the other: give each event a key of its own", map[string]Name{}}
	topics := brokerNames{"topic", "Kafka takes a dot and an underscore in topics for the same: change one of them", map[string]Name{}}
	seen := map[string]bool{}
	for _, ev := range c.model.Events {
		b := ev.Broker
		c.takeBrokerName(keys, b.Key.Text, b.Key, ev.Name)
		if !seen[b.Topic.Text] {
			seen[b.Topic.Text] = true
			c.takeBrokerName(topics, strings.ReplaceAll(b.Topic.Text, ".", "_"), b.Topic, ev.Name)
		}
	}
	const shared = "each of the consumers would get a part of the messages: give each a name of its own"
	queues := brokerNames{"queue", shared, map[string]Name{}}
	groups := brokerNames{"group", shared, map[string]Name{}}
	for _, con := range c.model.Consumers {
		c.takeBrokerName(queues, con.Broker.Queue.Text, con.Broker.Queue, con.Name)
		c.takeBrokerName(groups, con.Broker.Group.Text, con.Broker.Group, con.Name)
	}
	for _, con := range c.model.Consumers {
		c.checkRetryQueue(con, queues.owners)
	}
}

// checkRetryQueue reports a queue that can be one in which another consumer's failed messages
// wait: on RabbitMQ these are its queue's name, ".retry." and the wait.
func (c *checker) checkRetryQueue(con *Consumer, owners map[string]Name) {
	queue := con.Broker.Queue
	i := strings.LastIndex(queue.Text, ".retry.")
	if i < 0 {
		return
	}
	owner, taken := owners[queue.Text[:i]]
	if _, err := time.ParseDuration(queue.Text[i+len(".retry."):]); err != nil || !taken {
		return
	}
	c.problem(&node{pos: queue.Pos}, "broker-clash",
		fmt.Sprintf("the queue %s of %s is one in which failed messages of %s wait", quote(queue.Text), quote(con.Name.Text), quote(owner.Text)),
		"RabbitMQ would bring it what the other consumer failed on: give it another name",
		diag.Related{Pos: owner.Pos, Message: "first declared here"})
}

// brokerNames are the names of one kind that are taken, each with what took it
// and the place where it did.
type brokerNames struct {
	what, hint string
	owners     map[string]Name
}

// takeBrokerName notes a name of owner's, a default where it has no place in the
// file. id is the same for names that clash.
func (c *checker) takeBrokerName(names brokerNames, id string, name, owner Name) {
	if name.Pos.IsValid() {
		owner.Pos = name.Pos
	}
	first, taken := names.owners[id]
	if !taken {
		names.owners[id] = owner
		return
	}
	c.problem(&node{pos: owner.Pos}, "broker-clash",
		fmt.Sprintf("the %s %s of %s is in the way of that of %s", names.what, quote(name.Text), quote(owner.Text), quote(first.Text)),
		names.hint, diag.Related{Pos: first.Pos, Message: "first declared here"})
}
