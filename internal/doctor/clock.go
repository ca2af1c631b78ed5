package doctor

import (
	"context"
	"fmt"
	"time"
)

// clockSlack is how far clocks may be apart. The ids of events are made by the writers' clocks, and
// all else by the database's.
const clockSlack = 2 * time.Second

// clockTries is how often the clock is asked: the quickest answer is the most exact.
const clockTries = 5

// clock measures how far the database's clock is ahead of this machine's.
func (l *look) clock(ctx context.Context) error {
	for n := range clockTries {
		before := l.cfg.now()
		us, err := l.count(ctx, "SELECT CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS SIGNED)")
		after := l.cfg.now()
		if err != nil {
			return err
		}
		half := after.Sub(before) / 2
		if n == 0 || half < l.within {
			l.within = half
			l.offset = time.UnixMicro(us).Sub(before.Add(half))
		}
	}
	if apart := l.offset.Abs() - l.within; apart > clockSlack {
		l.warn("clock-differs", fmt.Sprintf("the database's clock is %s of this machine's", ahead(l.offset)),
			"let NTP set both; event ids carry the writers' time, and windows of time are looked up by them")
	}
	return nil
}

func ahead(d time.Duration) string {
	if d < 0 {
		return d.Abs().Round(time.Millisecond).String() + " behind that"
	}
	return d.Round(time.Millisecond).String() + " ahead"
}

// compareClocks looks at those of two databases.
func (l *look) compareClocks(other *look) {
	apart := other.offset - l.offset
	if apart.Abs()-l.within-other.within > clockSlack {
		other.warn("clock-differs", fmt.Sprintf("its clock is %s of the outbox's database", ahead(apart)), "let NTP set both")
	}
}
