package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

var (
	errScripted = errors.New("as the script has it")
	errNoReply  = errors.New("the reply was lost")
	errEarlier  = errors.New("an earlier event of the aggregate is not confirmed")
)

// publisher sends messages to the broker in waves: each has one message of each
// aggregate, the next of those whose one before was confirmed or rejected.
type publisher struct {
	client *http.Client
	url    string
}

func (p *publisher) Publish(ctx context.Context, envelopes []outbox.Envelope) []error {
	results := make([]error, len(envelopes))
	queues := map[string][]int{}
	for i := range envelopes {
		queues[envelopes[i].AggregateID] = append(queues[envelopes[i].AggregateID], i)
	}
	for len(queues) > 0 {
		wave := make([]int, 0, len(queues))
		for _, queue := range queues {
			wave = append(wave, queue[0])
		}
		p.send(ctx, envelopes, wave, results)
		for id, queue := range queues {
			result, rest := results[queue[0]], queue[1:]
			if result != nil && outbox.FailureKindOf(result) != outbox.FailureRejected {
				for _, i := range rest {
					results[i] = outbox.PublishHeldBack(errEarlier)
				}
				rest = nil
			}
			if queues[id] = rest; len(rest) == 0 {
				delete(queues, id)
			}
		}
	}
	return results
}

// send sends a wave in one request.
func (p *publisher) send(ctx context.Context, envelopes []outbox.Envelope, wave []int, results []error) {
	messages := make([]message, len(wave))
	for n, i := range wave {
		e := &envelopes[i]
		messages[n] = message{ID: e.ID, Aggregate: e.AggregateID, Version: e.AggregateVersion}
	}
	answers, err := p.post(ctx, messages)
	for n, i := range wave {
		switch {
		case err != nil:
			results[i] = outbox.PublishUnknown(err)
		default:
			results[i] = resultOf(answers[n])
		}
	}
}

func resultOf(a answer) error {
	switch a {
	case confirmed:
		return nil
	case rejected:
		return outbox.PublishRejected(errScripted)
	case failed:
		return outbox.PublishFailed(errScripted)
	default:
		return outbox.PublishUnknown(errNoReply)
	}
}

func (p *publisher) post(ctx context.Context, messages []message) ([]answer, error) {
	body, err := json.Marshal(messages)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.GetBody = nil // the client must not repeat a request by itself
	response, err := p.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	var answers []answer
	if err := json.NewDecoder(response.Body).Decode(&answers); err != nil {
		return nil, err
	}
	if len(answers) != len(messages) {
		return nil, fmt.Errorf("%d answers for %d messages", len(answers), len(messages))
	}
	return answers, nil
}
