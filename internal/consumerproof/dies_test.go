package consumerproof

import (
	"testing"

	"github.com/outboxgen/outboxgen/internal/dbserver"
)

// size is how much is consumed after deaths, at each step on each broker and database.
type size struct {
	messages int // a round
	rounds   int
	deaths   int // a round
	nth      int64
}

// short adds up to 1,020 messages a step over the brokers and databases; with
// -long it is ten times 1,000 on each.
func deathSize() size {
	if *long {
		return size{messages: 1000, rounds: 10, deaths: 5, nth: 100}
	}
	return size{messages: 170, rounds: 1, deaths: 3, nth: 30}
}

// A consumer that dies at any step, again and again, leaves one effect of each event.
func TestConsumerDies(t *testing.T) {
	eachBroker(t, func(t *testing.T, name string) {
		for _, flavor := range flavors(true) {
			t.Run(string(flavor), func(t *testing.T) {
				t.Parallel()
				consumerDies(t, name, flavor)
			})
		}
	})
}

func consumerDies(t *testing.T, name string, flavor dbserver.Flavor) {
	server, db := fresh(t, flavor)
	rig := newRig(t, name)
	size := deathSize()
	total := 0
	for _, step := range consumerSteps {
		before := count(t, db, "absorbed")
		for range size.rounds {
			rig.publish(t, events(t, 10, size.messages/10))
			total += size.messages
			for range size.deaths {
				consumeAndDie(t, orders{DSN: server.DSN, Place: rig.place, Step: step, Nth: size.nth})
			}
			if n := count(t, db, "consumed_event"); n == total {
				t.Errorf("%s: nothing was left to apply after the deaths", step)
			}
			stop := run(t, rig.place, steppingConsumer(db, func(string) {}), settings{concurrency: 4})
			await(t, "every event is applied", func() bool { return count(t, db, "consumed_event") >= total })
			stop()
		}
		absorbed := count(t, db, "absorbed") - before
		t.Logf("%d deaths %s: %d events applied, %d deliveries absorbed", size.rounds*size.deaths, step, size.rounds*size.messages, absorbed)
		if step == afterCommit && absorbed == 0 {
			t.Errorf("%s: the fault did not happen: nothing was delivered again", step)
		}
	}
	rows, effects, distinct := count(t, db, "consumed_event"), count(t, db, "tally"), count(t, db, "(SELECT DISTINCT event_id FROM tally) d")
	if rows != total || effects != total || distinct != total {
		t.Errorf("%d events: %d dedup rows, %d effects of %d events", total, rows, effects, distinct)
	}
	if lost := count(t, db, "consumed_event c LEFT JOIN tally e ON e.event_id = c.event_id WHERE e.id IS NULL OR c.outcome <> 1"); lost != 0 {
		t.Errorf("%d dedup rows without an effect", lost)
	}
	if n := count(t, db, "consumer_failure"); n != 0 {
		t.Errorf("%d events have counted attempts; deaths are nobody's fault", n)
	}
}
