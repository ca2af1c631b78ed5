package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/shopspring/decimal"

	"github.com/outboxgen/outboxgen/gen/orderevents"
)

const (
	clients = 16

	// patience is how often a client repeats a request that was answered with 503.
	patience = 50
)

// errand is what a client does for one order.
type errand struct {
	key    requestKey
	body   []byte
	twin   bool // the same request twice at the same time
	repeat bool // once more after the answer
	cancel int  // how often to cancel it afterwards
}

// requestKey is the entry's idempotency key.
type requestKey struct {
	Tenant  int64
	Request string
}

// planErrands makes the same errands every time: a run can be repeated.
func planErrands(n int) ([]errand, error) {
	random := rand.New(rand.NewPCG(1, 2))
	currencies := []orderevents.Currency{"CNY", "EUR", "USD"}
	errands := make([]errand, n)
	for i := range errands {
		currency := currencies[random.IntN(len(currencies))]
		var lines []orderevents.LineItem
		for _, article := range random.Perm(articles)[:1+random.IntN(3)] {
			lines = append(lines, line(sku(article), currency, random))
		}
		percent := random.IntN(100)
		if percent < 5 {
			// Refused when the order and its event have been written: the
			// transaction takes both back.
			lines = append(lines, line(soldOut, currency, random))
		}
		e := errand{key: requestKey{Tenant: pickTenant(random), Request: fmt.Sprintf("request-%06d", i)}}
		e.twin = random.IntN(100) < 6
		e.repeat = random.IntN(100) < 6
		if percent >= 95 {
			e.cancel = 1 + random.IntN(2)
		}
		var err error
		e.body, err = json.Marshal(map[string]any{"request_id": e.key.Request, "currency": currency, "lines": lines})
		if err != nil {
			return nil, err
		}
		errands[i] = e
	}
	return errands, nil
}

func line(sku string, currency orderevents.Currency, random *rand.Rand) orderevents.LineItem {
	return orderevents.LineItem{
		SKU:      sku,
		Quantity: 1 + random.Int32N(3),
		UnitPrice: orderevents.Money{
			Amount:   decimal.New(100+random.Int64N(20000), -2),
			Currency: currency,
		},
	}
}

func pickTenant(random *rand.Rand) int64 {
	switch p := random.IntN(100); {
	case p < 5:
		return blockedTenant
	case p < 45:
		return 1
	case p < 80:
		return 2
	default:
		return 3
	}
}

// load is the clients.
type load struct {
	url     string
	http    *http.Client
	answers *answers
}

func newLoad(url string) *load {
	transport := &http.Transport{MaxIdleConnsPerHost: 4 * clients}
	return &load{
		url:     url,
		http:    &http.Client{Transport: transport, Timeout: 20 * time.Second},
		answers: newAnswers(),
	}
}

// run sends all errands and returns the first thing that went really wrong.
func (l *load) run(ctx context.Context, errands []errand) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan errand)
	var working sync.WaitGroup
	for range clients {
		working.Go(func() {
			for e := range queue {
				if err := l.errand(ctx, e); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, e := range errands {
		if ctx.Err() != nil {
			break
		}
		queue <- e
	}
	close(queue)
	working.Wait()
	l.http.CloseIdleConnections()
	return context.Cause(ctx)
}

func (l *load) errand(ctx context.Context, e errand) error {
	posts := 1
	if e.twin {
		posts = 2
	}
	errs := make(chan error, posts)
	for range posts {
		go func() { errs <- l.order(ctx, e) }()
	}
	for range posts {
		if err := <-errs; err != nil {
			return err
		}
	}
	if e.repeat {
		if err := l.order(ctx, e); err != nil {
			return err
		}
	}
	id, accepted := l.answers.orderID(e.key)
	for range e.cancel {
		if !accepted {
			return nil
		}
		status, body, err := l.post(ctx, fmt.Sprintf("/orders/%d/cancel", id), e.key.Tenant, []byte(`{"reason":"customer"}`))
		if err != nil {
			return err
		}
		if status != http.StatusOK {
			return fmt.Errorf("cancel order %d: the api answered %d: %s", id, status, body)
		}
		l.answers.cancelled(id)
	}
	return nil
}

// order asks for the order once, and notes the answer.
func (l *load) order(ctx context.Context, e errand) error {
	status, body, err := l.post(ctx, "/orders", e.key.Tenant, e.body)
	if err != nil {
		return err
	}
	switch status {
	case http.StatusConflict:
		l.answers.refused(e.key)
		return nil
	case http.StatusCreated, http.StatusOK:
		var order struct {
			ID      int64  `json:"id"`
			EventID string `json:"event_id"`
		}
		if err := json.Unmarshal(body, &order); err != nil {
			return fmt.Errorf("order %v: the api's answer: %w", e.key, err)
		}
		l.answers.accepted(e.key, order.ID, order.EventID, status == http.StatusCreated)
		return nil
	default:
		return fmt.Errorf("order %v: the api answered %d: %s", e.key, status, body)
	}
}

// post repeats what was answered with 503, or not at all, under the same request
// id, as a caller of an idempotent entry may.
func (l *load) post(ctx context.Context, path string, tenant int64, body []byte) (status int, answer []byte, err error) {
	for range patience {
		status, answer, err = l.postOnce(ctx, path, tenant, body)
		if err == nil && status != http.StatusServiceUnavailable {
			return status, answer, nil
		}
		l.answers.again()
		select {
		case <-ctx.Done():
			return 0, nil, context.Cause(ctx)
		case <-time.After(time.Duration(20+rand.IntN(80)) * time.Millisecond):
		}
	}
	if err == nil {
		err = fmt.Errorf("%s was answered with 503 %d times: %s", path, patience, answer)
	}
	return 0, nil, err
}

func (l *load) postOnce(ctx context.Context, path string, tenant int64, body []byte) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Tenant-ID", fmt.Sprint(tenant))
	res, err := l.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}
