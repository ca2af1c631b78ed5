package observability

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// What is private in an event is in no log, metric, span or error, also when its handler
// fails until the event is parked, and fails again at its redrive.
func TestPrivateFieldsAreShownNowhere(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
		x := newExample(t, server)
		const canary = "canary-4711-of-a-private-field" // order.accepted's note is `pii: true`
		x.order(t, 1, canary, "")
		x.order(t, 4, canary, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01") // no channel: parked
		await(t, "an applied and a parked event", func() bool {
			s := x.planner.Stats()
			return s.Applied == 1 && s.Parked == 1
		})
		parked, err := x.planner.ParkedEvents(t.Context(), 0, 10)
		if err != nil || len(parked) != 1 {
			t.Fatalf("parked: %d, %v", len(parked), err)
		}
		if !strings.Contains(string(parked[0].Envelope.Data), canary) {
			t.Fatal("the canary isn't in the event: the test proves nothing")
		}
		_, failure := x.planner.Redrive(t.Context(), parked[0].EventID)
		if !errors.As(failure, new(*outbox.HandlingError)) {
			t.Fatalf("the redrive ended with %v", failure)
		}
		state, err := orderevents.LookupEvent(t.Context(), x.db, parked[0].EventID)
		if err != nil {
			t.Fatal(err)
		}
		counts, err := orderevents.CountParked(t.Context(), x.db)
		if err != nil || len(counts) != 1 || counts[orderevents.ConsumerNameNotificationPlanner] != 1 {
			t.Errorf("parked by consumer: %v, %v", counts, err)
		}
		for where, text := range map[string]string{
			"the log":             x.log.String(),
			"the metrics":         x.metrics(t),
			"the spans":           fmt.Sprintf("%+v", x.spans.GetSpans()),
			"the error":           failure.Error() + fmt.Sprintf("%+v %#v", failure, parked[0].Reason),
			"the printed event":   fmt.Sprintf("%v %+v", parked[0].Envelope, parked[0].Envelope),
			"the event's state":   fmt.Sprintf("%+v", state),
			"the parked reason":   parked[0].Reason,
			"the counts of Stats": fmt.Sprintf("%+v %+v", x.planner.Stats(), x.relay.Stats()),
		} {
			if len(text) == 0 {
				t.Errorf("%s is empty: the test proves nothing", where)
			}
			if strings.Contains(text, canary) {
				t.Errorf("%s tells the private field", where)
			}
		}
		checkAttributes(t, x.spans.GetSpans())
	})
}
