package consumerproof

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// kafkaTap knows OffsetCommit, which acknowledges all records below an offset. There is
// one topic.
type kafkaTap struct {
	mu         sync.Mutex
	partitions map[int32]map[int64]uuid.UUID
	done       map[int32]int64 // below are acknowledged
}

func newKafkaTap(all []stored) tap {
	t := &kafkaTap{partitions: make(map[int32]map[int64]uuid.UUID), done: make(map[int32]int64)}
	for _, s := range all {
		if t.partitions[s.partition] == nil {
			t.partitions[s.partition] = make(map[int64]uuid.UUID)
		}
		t.partitions[s.partition][s.offset] = uuid.MustParse(s.id)
	}
	return t
}

// requestHeader is the length of a request's fixed beginning: size, key, version,
// correlation id.
const requestHeader = 4 + 2 + 2 + 4

func (t *kafkaTap) fromClient(in *bufio.Reader) (frame []byte, acked []uuid.UUID, err error) {
	frame = make([]byte, 4)
	if _, err := io.ReadFull(in, frame); err != nil {
		return nil, nil, err
	}
	frame = append(frame, make([]byte, binary.BigEndian.Uint32(frame))...)
	if _, err := io.ReadFull(in, frame[4:]); err != nil {
		return nil, nil, err
	}
	if len(frame) < requestHeader || int16(binary.BigEndian.Uint16(frame[4:])) != int16(kmsg.OffsetCommit) { //nolint:gosec // a key
		return frame, nil, nil
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.SetVersion(int16(binary.BigEndian.Uint16(frame[6:]))) //nolint:gosec // a version
	body := frame[requestHeader:]
	if n := int16(binary.BigEndian.Uint16(body)); n >= 0 { //nolint:gosec // the length of the client's name, -1 without one
		body = body[n:]
	}
	body = body[2:]
	if req.IsFlexible() {
		body = body[1:] // no tags
	}
	if err := req.ReadFrom(body); err != nil {
		return nil, nil, fmt.Errorf("%w: an OffsetCommit: %w", errProtocol, err)
	}
	for _, topic := range req.Topics {
		for _, p := range topic.Partitions {
			more, err := t.commit(p.Partition, p.Offset)
			if err != nil {
				return nil, nil, err
			}
			acked = append(acked, more...)
		}
	}
	return frame, acked, nil
}

// commit returns the events between the last offset and this one.
func (t *kafkaTap) commit(partition int32, offset int64) (acked []uuid.UUID, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for ; t.done[partition] < offset; t.done[partition]++ {
		id, known := t.partitions[partition][t.done[partition]]
		if !known {
			return nil, fmt.Errorf("%w: partition %d is committed to %d, beyond its end", errProtocol, partition, offset)
		}
		acked = append(acked, id)
	}
	return acked, nil
}

func (t *kafkaTap) fromServer(in *bufio.Reader) ([]byte, error) { return available(in) }
