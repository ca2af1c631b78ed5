package purge

import "sync"

// Stats counts what a purger did since it was made, in all its runs.
type Stats struct {
	Purged
	Passes   int64 // that this purger was elected for, those that failed among them
	Failures int64 // passes that ended with an error
	Elected  bool  // at the last look
}

// Stats returns the counts so far, those of a pass under way among them.
func (p *Purger) Stats() Stats {
	p.stats.mu.Lock()
	defer p.stats.mu.Unlock()
	return p.stats.now
}

type counters struct {
	mu  sync.Mutex
	now Stats
}

func (c *counters) add(n Purged) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.add(n)
}

func (c *counters) passed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.Passes++
	if err != nil {
		c.now.Failures++
	}
}

func (c *counters) elected(elected bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.Elected = elected
}
