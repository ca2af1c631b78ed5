package consumerproof

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/google/uuid"
)

// The frames and methods of AMQP 0-9-1 that the tap knows, as class<<16 | method
// (https://www.rabbitmq.com/resources/specs/amqp0-9-1.xml).
const (
	frameMethod = 1
	frameHeader = 2

	basicPublish  = 60<<16 | 40
	basicDeliver  = 60<<16 | 60
	basicAck      = 60<<16 | 80
	basicReject   = 60<<16 | 90
	basicNack     = 60<<16 | 120
	confirmSelect = 85<<16 | 10
)

// waitingCopies are the messages that a broker has confirmed in a queue where they
// wait to come again: their deliveries may be acknowledged without a dedup row.
type waitingCopies struct {
	mu     sync.Mutex
	copies map[uuid.UUID]int
}

func (w *waitingCopies) add(id uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.copies == nil {
		w.copies = make(map[uuid.UUID]int)
	}
	w.copies[id]++
}

// take reports whether a copy waits. Each stands for one delivery.
func (w *waitingCopies) take(id uuid.UUID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.copies[id] == 0 {
		return false
	}
	w.copies[id]--
	return true
}

// amqpTap knows which event a delivery tag stands for, in both directions: the deliveries
// of a consumer, and what it publishes to have it wait.
type amqpTap struct {
	queue   string
	waiting *waitingCopies

	mu       sync.Mutex
	greeted  bool
	channels map[uint16]*amqpChannel
}

type amqpChannel struct {
	delivered   map[uint64]uuid.UUID
	deliverTag  uint64 // of the delivery whose header comes next
	confirms    bool
	published   uint64
	publishKey  string // of the message whose header comes next, with confirms
	unconfirmed map[uint64]uuid.UUID
}

func newAMQPTap(queue string, waiting *waitingCopies) tap {
	return &amqpTap{queue: queue, waiting: waiting, channels: make(map[uint16]*amqpChannel)}
}

func (t *amqpTap) channel(n uint16) *amqpChannel {
	c := t.channels[n]
	if c == nil {
		c = &amqpChannel{delivered: make(map[uint64]uuid.UUID), unconfirmed: make(map[uint64]uuid.UUID)}
		t.channels[n] = c
	}
	return c
}

func (t *amqpTap) fromClient(in *bufio.Reader) (frame []byte, acked []uuid.UUID, err error) {
	if !t.greeted { // by "AMQP" and its version
		t.greeted = true
		frame = make([]byte, 8)
		_, err := io.ReadFull(in, frame)
		return frame, nil, err
	}
	f, err := readAMQP(in)
	if err != nil {
		return nil, nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.channel(f.channel)
	switch {
	case f.kind == frameHeader && c.publishKey != "":
		id, err := messageID(f.payload)
		if err != nil {
			return nil, nil, err
		}
		c.published++
		c.unconfirmed[c.published] = id
		c.publishKey = ""
	case f.method() == confirmSelect:
		c.confirms = true
	case f.method() == basicPublish && c.confirms:
		if c.publishKey = routingKey(f.payload); !strings.HasPrefix(c.publishKey, t.queue+".retry.") {
			return nil, nil, fmt.Errorf("%w: the subscriber publishes to something else than a queue to wait", errProtocol)
		}
	case f.method() == basicAck:
		acked, err = c.settle(f)
	case f.method() == basicNack && f.payload[12]&2 == 0, f.method() == basicReject && f.payload[12]&1 == 0:
		acked, err = c.settle(f) // without requeue the broker drops the message
	}
	return f.raw, acked, err
}

// settle returns the events of the deliveries that an acknowledgement names.
func (c *amqpChannel) settle(f amqpFrame) (ids []uuid.UUID, err error) {
	ids = f.named(c.delivered)
	if len(ids) == 0 {
		err = fmt.Errorf("%w: an acknowledgement of no delivery", errProtocol)
	}
	return ids, err
}

func (t *amqpTap) fromServer(in *bufio.Reader) ([]byte, error) {
	f, err := readAMQP(in)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.channel(f.channel)
	switch {
	case f.kind == frameHeader && c.deliverTag > 0:
		if c.delivered[c.deliverTag], err = messageID(f.payload); err != nil {
			return nil, err
		}
		c.deliverTag = 0
	case f.method() == basicDeliver:
		c.deliverTag = binary.BigEndian.Uint64(f.payload[5+int(f.payload[4]):]) // behind the consumer's tag
	case f.method() == basicAck:
		for _, id := range f.named(c.unconfirmed) {
			t.waiting.add(id)
		}
	}
	return f.raw, nil
}

// amqpFrame is one frame.
type amqpFrame struct {
	kind    byte
	channel uint16
	payload []byte
	raw     []byte
}

func readAMQP(in *bufio.Reader) (f amqpFrame, err error) {
	f.raw = make([]byte, 7)
	if _, err := io.ReadFull(in, f.raw); err != nil {
		return f, err
	}
	f.kind, f.channel = f.raw[0], binary.BigEndian.Uint16(f.raw[1:])
	size := int(binary.BigEndian.Uint32(f.raw[3:]))
	f.raw = append(f.raw, make([]byte, size+1)...)
	if _, err := io.ReadFull(in, f.raw[7:]); err != nil {
		return f, err
	}
	f.payload = f.raw[7 : 7+size]
	if f.raw[7+size] != 0xCE {
		err = fmt.Errorf("%w: an AMQP frame without its end", errProtocol)
	}
	return f, err
}

// method is 0 for what is none.
func (f amqpFrame) method() uint32 {
	if f.kind != frameMethod {
		return 0
	}
	return binary.BigEndian.Uint32(f.payload)
}

// named takes what an ack's delivery tag names out of all: with the flag multiple, every one
// up to it.
func (f amqpFrame) named(all map[uint64]uuid.UUID) (ids []uuid.UUID) {
	tag, multiple := binary.BigEndian.Uint64(f.payload[4:]), f.method() != basicReject && f.payload[12]&1 != 0
	for at, id := range all {
		if at == tag || multiple && (at < tag || tag == 0) {
			ids = append(ids, id)
			delete(all, at)
		}
	}
	return ids
}

// routingKey of a basic.publish: behind a reserved short and the exchange.
func routingKey(payload []byte) string {
	rest := payload[6:]
	rest = rest[1+int(rest[0]):]
	return string(rest[1 : 1+int(rest[0])])
}

// messageID reads the property message-id of a content header. Properties come in the order
// of their flags, from the highest bit on.
func messageID(payload []byte) (uuid.UUID, error) {
	flags, rest := binary.BigEndian.Uint16(payload[12:]), payload[14:]
	shortString := func() string {
		s := string(rest[1 : 1+int(rest[0])])
		rest = rest[1+int(rest[0]):]
		return s
	}
	for bit := 15; bit > 7; bit-- {
		if flags&(1<<bit) == 0 {
			continue
		}
		switch bit {
		case 13: // headers
			rest = rest[4+int(binary.BigEndian.Uint32(rest)):]
		case 12, 11: // delivery mode, priority
			rest = rest[1:]
		default: // content type and encoding, correlation id, reply to, expiration
			shortString()
		}
	}
	if flags&(1<<7) == 0 {
		return uuid.Nil, fmt.Errorf("%w: a message without an id", errProtocol)
	}
	id, err := uuid.Parse(shortString())
	if err != nil {
		return uuid.Nil, fmt.Errorf("%w: a message whose id is no event's: %w", errProtocol, err)
	}
	return id, nil
}
