package consumerproof

import (
	"testing"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/dbserver"
)

// deathSize is how many messages are delivered before each of how many deaths in a row.
func deathSize() (messages, deaths int) {
	if full {
		return 1000, 10
	}
	return 200, 3
}

// A consumer that dies at any step, again and again, leaves one effect of each event.
// Before each death every message has been delivered and none was acknowledged, so that
// all of them come again.
func TestConsumerDies(t *testing.T) {
	eachBroker(t, func(t *testing.T, name string) {
		t.Parallel()
		for i, step := range consumerSteps {
			t.Run(step, func(t *testing.T) {
				t.Parallel()
				eachFlavor(t, i+len(name), func(t *testing.T, flavor dbserver.Flavor) {
					t.Parallel()
					consumerDies(t, name, step, flavor)
				})
			})
		}
	})
}

func consumerDies(t *testing.T, name, step string, flavor dbserver.Flavor) {
	schema, db := fresh(t, flavor)
	rig := newRig(t, name)
	messages, deaths := deathSize()
	rig.publish(t, events(t, messages, 1)) // an aggregate each, since one's events are delivered one by one
	for death := 1; death <= deaths; death++ {
		standing := openTransactions
		switch step {
		case afterDelivery:
			standing = messages
		case afterCommit: // those of earlier deaths among them: some are to be applied, the others absorbed
			standing = messages * death / deaths
		}
		consumeAndDie(t, orders{DSN: schema.DSN, Place: rig.place, Step: step, Delivered: messages, Standing: standing})
	}
	applied := 0
	if step == afterCommit {
		applied = messages
	}
	if n := count(t, db, "consumed_event"); n != applied {
		t.Errorf("the deaths left %d dedup rows, want %d", n, applied)
	}

	survivor := newStepper(db, func(string, uuid.UUID) {})
	stop := run(t, rig.place, survivor, settings{concurrency: 4})
	await(t, "every event is delivered once more", func() bool {
		s := survivor.Stats()
		return int(s.Applied+s.Duplicates) >= messages
	})
	stop()
	s := survivor.Stats()
	t.Logf("%d deaths %s, each with %d messages; of all %d that came again at the end %d were applied, %d absorbed",
		deaths, step, messages, s.Attempts, s.Applied, s.Duplicates)
	if int(s.Applied) != messages-applied {
		t.Errorf("the survivor applied %d, want %d", s.Applied, messages-applied)
	}
	checkOnce(t, db, messages)
}
