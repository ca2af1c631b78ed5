package kafka

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// recordRetries is how often franz-go sends a record again by itself. It does so
// under the record's first sequence number, so that the broker stores it once; that
// spares a new leader, or a cut connection, an outcome that is unknown.
const recordRetries = 2

// session is a client, and with it an idempotent producer, for as long as nothing
// that it was handed is given up on.
type session struct {
	client *kgo.Client
	close  func() // once; then nothing is sent any more
	counts *connCounts
}

func newSession(cluster Cluster, cfg PublisherConfig) (*session, error) {
	counts := new(connCounts)
	// These may be overridden.
	cluster.Options = append([]kgo.Opt{
		// franz-go asks for metadata at most so often, and waits for it before it
		// tries another leader. Its default, 5 s, is our whole AckTimeout.
		kgo.MetadataMinAge(250 * time.Millisecond),
		kgo.RetryBackoffFn(func(n int) time.Duration { return min(100*time.Millisecond<<min(n, 4), time.Second) }),
	}, cluster.Options...)
	client, err := cluster.client(
		kgo.RequiredAcks(kgo.AllISRAcks()),
		// As Kafka's own clients do it (murmur2), so that producers in other
		// languages put an aggregate's records into the same partition.
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		kgo.ProducerLinger(0),
		kgo.ProducerBatchMaxBytes(cfg.MaxMessageBytes),
		kgo.ProduceRequestTimeout(cfg.AckTimeout),
		// The relay bounds what is in flight. Here a call would wait without an end.
		kgo.MaxBufferedRecords(1<<30),
		kgo.MaxBufferedBytes(0),
		kgo.RecordRetries(recordRetries),
		kgo.UnknownTopicRetries(recordRetries),
		// By default a record that was sent is never given up, however often
		// the connection breaks (franz-go issue 769). We say "unknown" then.
		kgo.AllowIdempotentProduceCancellation(),
		kgo.WithHooks(counts),
	)
	if err != nil {
		return nil, err
	}
	for name, opt := range map[string]any{
		"DisableIdempotentWrite": kgo.DisableIdempotentWrite, "ManualFlushing": kgo.ManualFlushing, "TransactionalID": kgo.TransactionalID,
	} {
		if v := client.OptValue(opt); v != nil && v != false && v != "" {
			client.Close()
			return nil, fmt.Errorf("kafka: Cluster.Options has kgo.%s, with which a publisher can't work", name)
		}
	}
	return &session{client: client, close: sync.OnceFunc(client.Close), counts: counts}, nil
}

// connCounts counts what a client's connections did. They tell whether a record can have
// reached a broker, and whether an answer can have been lost.
type connCounts struct {
	writes atomic.Int64 // produce requests of which anything was written
	reads  atomic.Int64 // answers to produce requests
	breaks atomic.Int64 // connections that ended, and produce requests without an answer
}

var (
	_ kgo.HookBrokerWrite      = (*connCounts)(nil)
	_ kgo.HookBrokerE2E        = (*connCounts)(nil)
	_ kgo.HookBrokerDisconnect = (*connCounts)(nil)
)

// OnBrokerWrite implements [kgo.HookBrokerWrite].
func (c *connCounts) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, written int, _, _ time.Duration, err error) {
	if key == int16(kmsg.Produce) && (written > 0 || err == nil) {
		c.writes.Add(1)
	}
}

// OnBrokerE2E implements [kgo.HookBrokerE2E].
func (c *connCounts) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	switch {
	case key != int16(kmsg.Produce):
	case e2e.Err() != nil:
		c.breaks.Add(1)
	default:
		c.reads.Add(1)
	}
}

// OnBrokerDisconnect implements [kgo.HookBrokerDisconnect].
func (c *connCounts) OnBrokerDisconnect(kgo.BrokerMetadata, net.Conn) { c.breaks.Add(1) }

// handover is what the counts were before a record was handed to the client.
type handover struct{ writes, breaks int64 }

func (s *session) handover() handover {
	return handover{writes: s.counts.writes.Load(), breaks: s.counts.breaks.Load()}
}

// trail is what is known of a record's way since it was handed over.
type trail struct {
	sent   bool // it can have been written to a connection
	broken bool // an answer can have got lost
	open   bool // an answer can be outstanding
}

// unpartitioned marks a record that the client has not yet put into a partition's
// queue: then it was never sent.
const unpartitioned = -1

func (s *session) trail(h handover, partition int32) trail {
	reads := s.counts.reads.Load() // before the writes: a write in between leaves it open
	return trail{
		open:   s.counts.writes.Load() != reads,
		sent:   partition != unpartitioned && s.counts.writes.Load() != h.writes,
		broken: s.counts.breaks.Load() != h.breaks,
	}
}
