package kafka

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestDeletedUnread: that the broker has deleted what the group had yet to read is logged, with how
// much, and the subscription goes on.
func TestDeletedUnread(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	p := r.publisher(PublisherConfig{})
	all := events(1, 20)
	r.publish(p, all[:5])
	c := newConsumer(nil)
	stop := r.subscribe(c, subscribeConfig())
	c.waitAll(t, all[:5])
	eventually(t, "all is committed", func() bool { return r.unacked(c.Name()) == 0 })
	stop()
	r.publish(p, all[5:])
	to := make(kadm.Offsets)
	to.AddOffset(topic, 0, 12, -1)
	if _, err := kadm.NewClient(r.admin).DeleteRecords(t.Context(), to); err != nil {
		t.Fatal(err)
	}

	var log logText
	cfg := subscribeConfig()
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	c = newConsumer(nil)
	stop = r.subscribe(c, cfg)
	c.waitAll(t, all[12:])
	stop()
	if got, want := log.String(), "partition=0 read_to=5 goes_on_at=12 deleted=7"; strings.Count(got, "deleted=") != 1 || !strings.Contains(got, want) {
		t.Errorf("logged %q, want %q once", got, want)
	}
}

func TestDeleted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ next, logStart, first, want int64 }{
		"no commit":         {-2, 5, 5, 0},
		"all there":         {5, 0, 5, 0},
		"deleted and read":  {5, 5, 5, 0},
		"deleted":           {5, 7, 7, 2},
		"and a transaction": {5, 7, 8, 2},
		"a transaction":     {5, 0, 6, 0},
		"while it was read": {5, 7, 5, 0},
		"read again":        {5, 0, 2, 0},
	} {
		f := kgo.FetchPartition{LogStartOffset: c.logStart, Records: []*kgo.Record{{Offset: c.first}}}
		if got := deleted(c.next, f); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
