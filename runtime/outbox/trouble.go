package outbox

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// repeatTrouble is after how long a trouble that lasts is told again.
	repeatTrouble = 10 * time.Minute

	// relapseTrouble is how long a trouble that was told to be over stays untold
	// when it comes back; the time doubles with each relapse, up to repeatTrouble.
	relapseTrouble = 10 * time.Second
)

// trouble tells of one kind of trouble when it begins, then every ten minutes
// how often it has come since, and, where an end can be seen, when it is over.
// One that comes and goes is told less and less often.
type trouble struct {
	log      *slog.Logger
	level    slog.Level
	message  string
	overText string // for kinds that have an end

	mu    sync.Mutex
	lasts bool          // its beginning was told, its end wasn't
	count int           // what came since it was last told
	told  time.Time     // when it was last told
	last  time.Time     // when it last came
	hush  time.Duration // for how long a relapse stays untold
}

// note tells of the trouble, or counts it. n is how much of it there is: calls, or events.
func (t *trouble) note(n int, args ...any) {
	if count, due := t.add(n); due {
		t.log.Log(context.Background(), t.level, t.message, append(args, "count", count)...)
	}
}

func (t *trouble) add(n int) (count int, due bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if now.Sub(t.last) >= repeatTrouble { // that was another time
		t.hush = 0
	}
	t.last = now
	t.count += n
	wait := t.hush
	if t.lasts {
		wait = repeatTrouble
	}
	if !t.told.IsZero() && now.Sub(t.told) < wait {
		return 0, false
	}
	if !t.lasts {
		t.lasts = true
		t.hush = min(max(2*t.hush, relapseTrouble), repeatTrouble)
	}
	count, t.count, t.told = t.count, 0, now
	return count, true
}

// end tells that the trouble is over, if it was told to have begun.
func (t *trouble) end() {
	t.mu.Lock()
	lasted, count := t.lasts, t.count
	if lasted {
		t.lasts, t.count = false, 0
	}
	t.mu.Unlock()
	if lasted {
		t.log.Info(t.overText, "count", count)
	}
}

// troubles are the kinds that one run of a relay can have.
type troubles struct {
	claim, settle, renew, backlog, broker, unknown   *trouble // with an end
	abandoned, lost, short, overdue, order, panicked *trouble
}

func newTroubles(log *slog.Logger) troubles {
	kind := func(message, over string) *trouble {
		return &trouble{log: log, level: slog.LevelWarn, message: message, overText: over}
	}
	t := troubles{
		claim:   kind("claim failed; waiting for the database", "claims work again"),
		settle:  kind("settle failed; trying again", "settling works again"),
		renew:   kind("leases could not be renewed", "renewing leases works again"),
		backlog: kind("the backlog could not be counted", "counting the backlog works again"),
		broker:  kind("the broker does not answer; pausing", "the broker is available again"),
		unknown: kind("publish outcomes unknown; the events are due again when their leases would end", "publish outcomes are known again"),

		abandoned: kind("settle given up; the events are due again when their lease ends", ""),
		lost:      kind("events were no longer under this lease; they are left alone", ""),
		short:     kind("too little of the lease is left to publish; the events are given back", ""),
		overdue:   kind("the publisher does not return; the lease is no longer renewed", ""),
		order: kind("the publisher confirmed events before earlier ones of their aggregates; "+
			"where an order is promised, it is broken", ""),
		panicked: kind("the publisher panicked", ""),
	}
	t.panicked.level = slog.LevelError
	return t
}

func newCheckTrouble(log *slog.Logger) *trouble {
	return &trouble{
		log: log, level: slog.LevelWarn,
		message:  "the database could not be asked whether it is fit for an outbox; it is asked again before the first claim",
		overText: "the database is fit for an outbox",
	}
}
