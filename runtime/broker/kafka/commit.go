package kafka

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// keepCommitting commits every CommitInterval.
func (s *subscription) keepCommitting(ctx context.Context) {
	ticker := time.NewTicker(s.cfg.CommitInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.commit(nil)
		case <-ctx.Done():
			return
		}
	}
}

// commit commits the offsets of partitions that have moved on; without any named, of
// all that are ours.
func (s *subscription) commit(of []*partition) {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	if of == nil {
		// Looked up under commitMu: one that ends meanwhile is committed afterwards,
		// by who ends it.
		s.mu.Lock()
		of = slices.Collect(maps.Values(s.partitions))
		s.mu.Unlock()
	}
	moved := make(map[topicPartition]movement)
	offsets := make(map[string]map[int32]kgo.EpochOffset)
	for _, p := range of {
		at, handled, ok := p.tracker.prefix()
		if !ok || at == p.committed {
			continue
		}
		moved[topicPartition{p.topic, p.number}] = movement{p, at, handled}
		if offsets[p.topic] == nil {
			offsets[p.topic] = make(map[int32]kgo.EpochOffset)
		}
		offsets[p.topic][p.number] = at
	}
	if len(offsets) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.CommitTimeout)
	defer cancel()
	s.client.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		s.committed(moved, resp, err)
	})
}

// movement is how far a partition has come.
type movement struct {
	partition *partition
	at        kgo.EpochOffset
	handled   int64
}

// committed notes what the broker has taken. Offsets that it has not are
// committed with the next ones.
func (s *subscription) committed(moved map[topicPartition]movement, resp *kmsg.OffsetCommitResponse, err error) {
	if err == nil {
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				at := topicPartition{t.Topic, p.Partition}
				if code := kerr.ErrorForCode(p.ErrorCode); code != nil {
					err = code
				} else if m, ok := moved[at]; ok {
					s.cfg.Stats.Acked.Add(max(m.handled-m.partition.acked, 0))
					m.partition.committed, m.partition.acked = m.at, m.handled
					delete(moved, at)
				}
			}
		}
	}
	for _, m := range moved {
		s.cfg.Stats.AckFailed.Add(max(m.handled-m.partition.acked, 0))
	}
	switch {
	case err != nil && !s.failing && !isRebalance(err):
		s.cfg.Logger.Warn("offsets can't be committed; what was handled may be delivered again", "error", err)
	case err == nil && s.failing:
		s.cfg.Logger.Info("offsets can be committed again")
	}
	s.failing = err != nil
}
