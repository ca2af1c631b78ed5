package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outboxgen/outboxgen/runtime/internal/delivery"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Subscribe hands the events of a handler's types to it until ctx ends, as a
// member of a consumer group, and then returns nil. It returns an error when the
// settings are wrong, and when at its start a topic doesn't exist. Other troubles, such as
// no broker that answers, are logged and got over.
//
//   - Events of one aggregate are handled one at a time, in the order of their
//     partition. A message that fails waits here and is tried again; the
//     later ones of its aggregate wait behind it, others go past it.
//   - The offset committed for a partition is that of its first record that isn't done
//     with, so that after a crash everything from there on comes again, the
//     handled ones too. The consumer's dedup row absorbs those.
//   - A record that isn't an event is parked ([outbox.Handler.Park]), then it is done
//     with. An event of another type is passed over.
//   - When partitions go to another member of the group, the handlers that run for
//     them finish, within ShutdownTimeout, what is done is committed, and the rest
//     is left to that member.
func Subscribe(ctx context.Context, cluster Cluster, h outbox.Handler, cfg SubscribeConfig) error {
	cfg = cfg.withDefaults(h)
	if err := cfg.validate(h); err != nil {
		return err
	}
	topics, err := cfg.topics(h)
	if err != nil {
		return err
	}
	cfg.Logger = cfg.Logger.With("consumer", h.Name(), "group", cfg.Group)
	s := &subscription{ctx: ctx, cluster: cluster, topics: topics, handler: h, cfg: cfg, handles: make(map[string]bool)}
	for _, t := range h.EventTypes() {
		s.handles[t] = true
	}
	if err := s.open(); err != nil {
		return err
	}
	defer s.close()
	if err := s.awaitTopics(); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer delivery.Redrives(ctx, h)()
	for s.run() {
		// With a new client, which learns the topics anew.
		s.close()
		if err := s.open(); err != nil {
			return err
		}
	}
	return nil
}

// open makes a client and what belongs to it.
func (s *subscription) open() error {
	s.slots = make(chan struct{}, s.cfg.Concurrency)
	s.partitions = make(map[topicPartition]*partition)
	s.ended, s.remade = false, false
	var ctx context.Context
	ctx, s.giveUp = context.WithCancel(context.Background())
	client, err := s.cluster.client(
		kgo.WithContext(ctx),
		kgo.ConsumeTopics(s.topics...),
		kgo.ConsumerGroup(s.cfg.Group),
		kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		// A rebalance waits for our callbacks, and they for handlers.
		kgo.RebalanceTimeout(max(60*time.Second, s.cfg.ShutdownTimeout+2*s.cfg.CommitTimeout+10*time.Second)),
		// Otherwise records of an assignment that has ended could be taken for
		// the next one's.
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(s.assigned),
		kgo.AdjustFetchOffsetsFn(s.begins),
		kgo.OnPartitionsRevoked(s.revoked),
		kgo.OnPartitionsLost(s.lost),
	)
	if err != nil {
		s.giveUp()
		return err
	}
	s.client = client
	return nil
}

// close leaves the group and ends the client. What the broker doesn't answer within
// CommitTimeout is given up: a member that waits for the group to be divided would otherwise
// be waited for until RebalanceTimeout.
func (s *subscription) close() {
	// A member that doesn't say that it leaves is waited for until its session ends.
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.CommitTimeout)
	defer cancel()
	if err := s.client.LeaveGroupContext(ctx); err != nil {
		s.cfg.Logger.Warn("the broker was not told that this member leaves the group", "error", err)
	}
	s.giveUp()
	s.client.CloseAllowingRebalance()
}

// newTopicPatience is how long a topic may be unknown at the start: one that was just
// created takes a moment to be known by every broker.
const newTopicPatience = 5 * time.Second

// errNoAnswer is knownTopics' error when it couldn't find out.
var errNoAnswer = errors.New("ask for topics")

// awaitTopics waits for a broker that says that the topics exist. It returns an error when one
// says that they don't.
func (s *subscription) awaitTopics() error {
	for wait := s.cfg.Backoff; ; wait = min(2*wait, s.cfg.MaxBackoff) {
		_, err := knownTopics(s.ctx, kadm.NewClient(s.client), s.topics)
		if err == nil {
			return nil
		}
		if !errors.Is(err, errNoAnswer) {
			return fmt.Errorf("kafka: %w", err)
		}
		s.cfg.Logger.Warn("no broker answers yet", "again_in", wait.String(), "error", err)
		select {
		case <-time.After(wait):
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	}
}

// knownTopics describes topics, and returns an error when one doesn't exist.
func knownTopics(ctx context.Context, admin *kadm.Client, topics []string) (kadm.TopicDetails, error) {
	for deadline := time.Now().Add(newTopicPatience); ; {
		found, err := admin.ListTopics(ctx, topics...)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errNoAnswer, err)
		}
		if err = found.Error(); err == nil {
			return found, nil
		}
		if !errors.Is(err, kerr.UnknownTopicOrPartition) || time.Now().After(deadline) {
			return nil, fmt.Errorf("topics %q: %w", topics, err)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

type topicPartition struct {
	topic  string
	number int32
}

type subscription struct {
	ctx     context.Context //nolint:containedctx // Subscribe's
	cluster Cluster
	topics  []string
	client  *kgo.Client
	giveUp  context.CancelFunc // fails what the client waits for
	handler outbox.Handler
	cfg     SubscribeConfig
	handles map[string]bool // event types
	slots   chan struct{}   // one token a running handler

	mu         sync.Mutex
	partitions map[topicPartition]*partition
	ended      bool // take no more partitions

	commitMu sync.Mutex // one commit at a time, so that none overtakes a newer one
	failing  bool       // the last commit failed; under commitMu

	lastErr string // of fetching, for the log; of the polling goroutine, as is remade
	remade  bool   // a topic was deleted and made anew
}

// pollRecords bounds what one poll returns, over all partitions.
const pollRecords = 1000

// run reads until ctx ends, or reports true when a topic was deleted and made anew.
func (s *subscription) run() (again bool) {
	committing, stop := context.WithCancel(context.Background())
	var committer sync.WaitGroup
	committer.Go(func() { s.keepCommitting(committing) })
	for s.poll() {
	}
	s.mu.Lock()
	s.ended = true
	all := slices.Collect(maps.Keys(s.partitions))
	s.mu.Unlock()
	ended := s.end(all)
	stop()
	committer.Wait()
	if !s.remade { // the offsets are those of the old topic
		s.commitLast(ended)
	}
	return s.remade
}

// poll hands over what was fetched, and reports false when the subscription is to end.
func (s *subscription) poll() bool {
	fetches := s.client.PollRecords(s.ctx, pollRecords)
	defer s.client.AllowRebalance()
	if s.ctx.Err() != nil || fetches.IsClientClosed() {
		s.remade = false
		return false
	}
	fetches.EachError(s.fetchError)
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		if len(f.Records) == 0 {
			return
		}
		s.mu.Lock()
		p := s.partitions[topicPartition{f.Topic, f.Partition}]
		s.mu.Unlock()
		if p != nil {
			p.add(f.FetchPartition)
			s.lastErr = ""
		}
	})
	return !s.remade
}

// fetchError logs an error of fetching, or of the group, once until it changes. The
// client goes on by itself.
func (s *subscription) fetchError(topic string, number int32, err error) {
	if loss := new(kgo.ErrDataLoss); errors.As(err, &loss) {
		s.cfg.Logger.Error("the broker's log ends before what was read: records were lost there; going on from what it has",
			"topic", topic, "partition", number, "read_to", loss.ConsumedTo, "goes_on_at", loss.ResetTo)
		return
	}
	s.remade = s.remade || isRemade(err)
	if text := err.Error(); text != s.lastErr {
		s.lastErr = text
		s.cfg.Logger.Warn("can't read; trying on", "topic", topic, "partition", number, "error", err)
	}
}

func (s *subscription) assigned(_ context.Context, _ *kgo.Client, added map[string][]int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	for topic, numbers := range added {
		for _, n := range numbers {
			s.partitions[topicPartition{topic, n}] = s.newPartition(topic, n)
		}
	}
}

// begins notes where the assignments begin, between assigned and the first record. It adjusts nothing.
func (s *subscription) begins(_ context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for topic, numbers := range offsets {
		for n, at := range numbers {
			if p := s.partitions[topicPartition{topic, n}]; p != nil {
				p.begin(at.EpochOffset().Offset)
			}
		}
	}
	return offsets, nil
}

// revoked ends assignments while they are still ours: what is done is committed.
func (s *subscription) revoked(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
	s.commitLast(s.end(flatten(gone)))
}

// lost ends assignments that are perhaps another's already.
func (s *subscription) lost(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
	s.end(flatten(gone))
}

func flatten(m map[string][]int32) (all []topicPartition) {
	for topic, numbers := range m {
		for _, n := range numbers {
			all = append(all, topicPartition{topic, n})
		}
	}
	return all
}

// end takes partitions out, ends their work, and returns them.
func (s *subscription) end(gone []topicPartition) []*partition {
	var ended []*partition
	s.mu.Lock()
	for _, at := range gone {
		if p := s.partitions[at]; p != nil {
			ended = append(ended, p)
			delete(s.partitions, at)
		}
	}
	s.mu.Unlock()
	var ending sync.WaitGroup
	for _, p := range ended {
		ending.Go(func() { p.end(s.cfg.ShutdownTimeout) })
	}
	ending.Wait()
	return ended
}
