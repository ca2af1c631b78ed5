package consumerproof

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// natsTap knows PUB and HPUB, with which clients acknowledge
// (https://docs.nats.io/reference/reference-protocols/nats-protocol).
type natsTap struct{ bySequence map[int64]uuid.UUID }

func newNATSTap(all []stored) tap {
	t := natsTap{bySequence: make(map[int64]uuid.UUID)}
	for _, s := range all {
		t.bySequence[s.offset] = uuid.MustParse(s.id)
	}
	return t
}

func (t natsTap) fromClient(in *bufio.Reader) (frame []byte, acked []uuid.UUID, err error) {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return nil, nil, err
	}
	fields := strings.Fields(string(line))
	if len(fields) < 3 || fields[0] != "PUB" && fields[0] != "HPUB" {
		return line, nil, nil
	}
	size, err := strconv.Atoi(fields[len(fields)-1])
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errProtocol, err)
	}
	body := make([]byte, size+len("\r\n"))
	if _, err := io.ReadFull(in, body); err != nil {
		return nil, nil, err
	}
	if !endsDelivery(fields[1], body[:size]) {
		return append(line, body...), nil, nil
	}
	id, known := t.bySequence[ackSequence(fields[1])]
	if !known {
		return nil, nil, fmt.Errorf("%w: an acknowledgement of no event: %s", errProtocol, fields[1])
	}
	return append(line, body...), []uuid.UUID{id}, nil
}

const ackSubject = "$JS.ACK."

// endsDelivery holds for what lets the server forget a message: an empty body, +ACK,
// +NXT and +TERM do, -NAK and +WPI don't.
func endsDelivery(subject string, body []byte) bool {
	return strings.HasPrefix(subject, ackSubject) && !bytes.HasPrefix(body, []byte("-NAK")) && !bytes.HasPrefix(body, []byte("+WPI"))
}

// ackSequence reads the stream sequence from
// $JS.ACK.<stream>.<consumer>.<delivered>.<sequence>.<consumer sequence>.<time>.<pending>, or
// of the newer form with domain and account behind $JS.ACK (ADR-15). 0 is none's.
func ackSequence(subject string) int64 {
	tokens := strings.Split(subject, ".")
	at := 5
	if len(tokens) >= 11 {
		at = 7
	}
	if len(tokens) <= at {
		return 0
	}
	n, err := strconv.ParseInt(tokens[at], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (natsTap) fromServer(in *bufio.Reader) ([]byte, error) { return available(in) }

// available returns what has come, at least a byte.
func available(in *bufio.Reader) ([]byte, error) {
	if _, err := in.Peek(1); err != nil {
		return nil, err
	}
	frame := make([]byte, in.Buffered())
	_, err := io.ReadFull(in, frame)
	return frame, err
}
