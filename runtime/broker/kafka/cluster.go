package kafka

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Cluster is how to reach a Kafka cluster.
type Cluster struct {
	// Brokers are some of its brokers, as host:port. Required. The others are
	// learned from them.
	Brokers []string

	// Options are more of franz-go's settings, such as kgo.DialTLS,
	// kgo.SASL, kgo.ClientID or kgo.WithLogger. What this package promises
	// rests on some settings (acks, idempotence, partitioning, offset commits); those are
	// set after Options and can't be changed by them. Defaults to none.
	Options []kgo.Opt
}

// client makes a client; kgo connects when there is something to do.
func (c Cluster) client(own ...kgo.Opt) (*kgo.Client, error) {
	if len(c.Brokers) == 0 {
		return nil, errors.New("kafka: Cluster.Brokers is required")
	}
	for _, addr := range c.Brokers {
		if strings.Contains(addr, "://") {
			return nil, fmt.Errorf("kafka: Cluster.Brokers has %q: want host:port, without a scheme", addr)
		}
	}
	// A client's own statistics to the brokers (KIP-714) would delay its end.
	opts := slices.Concat(c.Options, []kgo.Opt{kgo.SeedBrokers(c.Brokers...), kgo.DisableClientMetrics()}, own)
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	return client, nil
}

// maxTopic is Kafka's limit of a topic's name
// (https://kafka.apache.org/documentation/#topicconfigs, org.apache.kafka.common.internals.Topic).
const maxTopic = 249

func checkTopic(name string) error {
	valid := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '_' || r == '-'
	}
	invalid := func(r rune) bool { return !valid(r) }
	if name == "" || name == "." || name == ".." || len(name) > maxTopic || strings.ContainsFunc(name, invalid) {
		return fmt.Errorf("topic %q: want 1 to %d letters, digits, dots, dashes and underscores", shorten(name), maxTopic)
	}
	return nil
}

func shorten(s string) string {
	if len(s) <= 64 {
		return s
	}
	return s[:64] + "…"
}
