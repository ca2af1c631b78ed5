package record

import "github.com/outboxgen/outboxgen/internal/history"

// Counts are what was there in the end, and what happened on the way.
type Counts struct {
	CommittedRequests int            `yaml:"committed_requests"` // business rows
	Events            map[string]int `yaml:"events"`             // outbox rows by status
	Publishes         int            `yaml:"publishes"`          // confirmed
	BrokerMessages    int            `yaml:"broker_messages"`    // what the broker holds, repeats included
	HandleAttempts    int            `yaml:"handle_attempts"`
	Duplicates        int            `yaml:"duplicates_absorbed"`
	DedupRows         int            `yaml:"dedup_rows"`
	Effects           int            `yaml:"effects"`
	Parked            int            `yaml:"parked"`
	LostLeases        int            `yaml:"marks_refused"` // since the lease was lost
	Faults            int            `yaml:"faults"`
}

// CountsOf counts a run.
func CountsOf(h history.History) Counts {
	c := Counts{
		CommittedRequests: len(h.Business), Events: map[string]int{}, BrokerMessages: len(h.Messages),
		HandleAttempts: len(h.Deliveries), DedupRows: len(h.Dedup), Parked: len(h.Parked), Faults: len(h.Faults),
	}
	for _, e := range h.Events {
		c.Events[e.Status]++
	}
	for _, p := range h.Published {
		if p.Confirmed {
			c.Publishes++
		}
	}
	for _, d := range h.Deliveries {
		if d.Result == "duplicate" {
			c.Duplicates++
		}
	}
	for _, e := range h.Effects {
		c.Effects += e.Count
	}
	for _, m := range h.Marks {
		if !m.Owned && !m.Changed {
			c.LostLeases++
		}
	}
	return c
}

// Add adds another run's.
func (c *Counts) Add(d Counts) {
	c.CommittedRequests += d.CommittedRequests
	c.Publishes += d.Publishes
	c.BrokerMessages += d.BrokerMessages
	c.HandleAttempts += d.HandleAttempts
	c.Duplicates += d.Duplicates
	c.DedupRows += d.DedupRows
	c.Effects += d.Effects
	c.Parked += d.Parked
	c.LostLeases += d.LostLeases
	c.Faults += d.Faults
	if c.Events == nil {
		c.Events = make(map[string]int, len(d.Events))
	}
	for status, n := range d.Events {
		c.Events[status] += n
	}
}
