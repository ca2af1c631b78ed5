package kafka

import (
	"context"
	"errors"
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
			s.commit()
		case <-ctx.Done():
			return
		}
	}
}

// commit commits the offsets of all partitions that are ours and have moved on.
func (s *subscription) commit() {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	// Looked up under commitMu: one that ends meanwhile is committed afterwards,
	// by who ends it.
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.partitions))
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.CommitTimeout)
	defer cancel()
	_ = s.commitOffsets(ctx, all) // it is logged, and made good by the next one
}

// rebalanceRetry is the wait before the last commit of a partition is tried again, when
// the group was just being divided.
const rebalanceRetry = 50 * time.Millisecond

// commitLast commits the offsets of partitions that are given up.
func (s *subscription) commitLast(ended []*partition) {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.CommitTimeout)
	defer cancel()
	for errors.Is(s.commitOffsets(ctx, ended), kerr.RebalanceInProgress) {
		select {
		case <-time.After(rebalanceRetry):
		case <-ctx.Done():
			return
		}
	}
}

func (s *subscription) commitOffsets(ctx context.Context, of []*partition) (err error) {
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
		return nil
	}
	s.client.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, e error) {
		err = s.committed(moved, resp, e)
	})
	return err
}

// movement is how far a partition has come.
type movement struct {
	partition *partition
	at        kgo.EpochOffset
	handled   int64
}

// committed notes what the broker has taken. Offsets that it has not are
// committed with the next ones.
func (s *subscription) committed(moved map[topicPartition]movement, resp *kmsg.OffsetCommitResponse, err error) error {
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
	case isRebalance(err):
		s.cfg.Logger.Debug("offsets were not committed: the group is being divided anew", "error", err)
		return err
	case err != nil && !s.failing:
		s.cfg.Logger.Warn("offsets can't be committed; what was handled may be delivered again", "error", err)
	case err == nil && s.failing:
		s.cfg.Logger.Info("offsets can be committed again")
	}
	s.failing = err != nil
	return err
}

// isRebalance reports whether an offset was refused because the group is being
// divided anew.
func isRebalance(err error) bool {
	return errors.Is(err, kerr.RebalanceInProgress) || errors.Is(err, kerr.IllegalGeneration) || errors.Is(err, kerr.UnknownMemberID)
}
