package delivery

import (
	"math/rand/v2"
	"time"
)

// backoff is Backoff, doubled with every delivery after the first up to MaxBackoff,
// and varied so that what failed together doesn't come back together.
func (e *Engine) backoff(deliveries int) time.Duration {
	d := e.cfg.MaxBackoff
	if n := max(deliveries, 1) - 1; n < 32 && e.cfg.Backoff < e.cfg.MaxBackoff>>n {
		d = e.cfg.Backoff << n
	}
	if e.cfg.NoJitter {
		return d
	}
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}
