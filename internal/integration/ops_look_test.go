package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/ops"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/storesuite"
)

// Everything that can be looked at, on a service that has some of everything.
func TestLook(t *testing.T) {
	eachKind(t, kinds, func(t *testing.T, k kind, server dbtest.Database, db *outbox.DB) {
		s := operations(t, k, server)
		dead := k.bury(t, db, 100, 3)
		published := k.writeEvents(t, db, 1, 4)
		publishAll(t, k.newStore(db), storesuite.NewOwner())
		pending := k.writeEvents(t, db, 200, 2)
		e := envelope(t)
		e.ID = published[0]
		consumer := report(db, func(context.Context, *outbox.Tx, string) error { return outbox.Permanent(errors.New("\x1b[31mno")) })
		ends(t, consumer, e, outbox.Parked)

		st, err := s.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if st.Events.Dead != 3 || st.Events.Pending != 2 || (st.Events.Published != 4) == !k.deletes {
			t.Errorf("the counts are %+v", st.Events)
		}
		if st.Oldest == nil || st.Oldest.Seconds < 0 || st.Oldest.EventID != pending[0].String() && st.Oldest.EventID != pending[1].String() {
			t.Errorf("the oldest is %+v", st.Oldest)
		}
		if len(st.Dead) != 1 || st.Dead[0].Count != 3 || st.Dead[0].Kind != "rejected" {
			t.Errorf("dead are %+v", st.Dead)
		}
		if len(st.Flow) == 0 || st.Flow[0].Type != "order.accepted" || st.Flow[0].WrittenMinute < 5 {
			t.Errorf("the flow is %+v", st.Flow)
		}
		for _, c := range st.Consumers {
			if c.Name == salesReport && (c.Parked != 1 || len(c.ParkedBy) != 1 || c.ParkedBy[0].Kind != "permanent" || !k.deletes && c.Behind != 3) {
				t.Errorf("%s is %+v", c.Name, c)
			}
		}

		look := func(id uuid.UUID) ops.Life {
			t.Helper()
			life, err := s.Show(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			return life
		}
		if life := look(dead[0]); life.Event == nil || life.Event.State != "DEAD" || life.Event.LastError != "the broker refused it" || life.Event.SchemaVersion == 0 {
			t.Errorf("of a dead event: %+v", life.Event)
		}
		life := look(published[0])
		if k.deletes != (life.Event == nil) || life.Event != nil && life.Event.State != "PUBLISHED" {
			t.Errorf("of a published event: %+v", life)
		}
		parked := false
		for _, c := range life.Consumers {
			parked = parked || c.Consumer == salesReport && c.State == "parked" && c.Kind == "permanent"
		}
		hasReport := k.name == lanesKind.name // the variants have other consumers
		if hasReport && !parked {
			t.Errorf("the consumers of a parked event are %+v", life.Consumers)
		}
		if life := look(outbox.NewEventID()); life.Event != nil || !strings.Contains(life.Note, "nobody knows it") {
			t.Errorf("of an unknown event: %+v", life)
		}

		for q, want := range map[*ops.Query]int{
			{AggregateType: "order", AggregateID: "200"}: 1,
			{Status: "dead"}:    3,
			{Status: "pending"}: 2,
			{Type: "order.accepted", Since: time.Now().Add(-time.Hour)}:       len(dead) + len(pending) + keptOf(k, published),
			{Type: "order.accepted", Until: time.Now().Add(-time.Hour)}:       0,
			{AggregateType: "order", AggregateID: "200", Status: "published"}: 0,
		} {
			page, err := s.Find(t.Context(), *q)
			if err != nil || len(page.Items) != want {
				t.Errorf("%+v: %d events, want %d: %v", *q, len(page.Items), want, err)
			}
		}
		var walked []string
		for q := (ops.Query{Limit: 2}); ; {
			page, err := s.Find(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page.Items {
				walked = append(walked, e.EventID.String())
			}
			if q.Before = page.Next; q.Before == "" {
				break
			}
		}
		if want := len(dead) + len(pending) + keptOf(k, published); len(walked) != want {
			t.Errorf("page by page there are %d events, want %d", len(walked), want)
		}
		deadPage, err := s.Dead(t.Context(), ops.DeadQuery{Limit: 2})
		if err != nil || len(deadPage.Items) != 2 || deadPage.Next == "" {
			t.Errorf("dead: %+v, %v", deadPage, err)
		}
		if deadPage, err = s.Dead(t.Context(), ops.DeadQuery{Limit: 2, Cursor: deadPage.Next}); err != nil || len(deadPage.Items) != 1 || deadPage.Next != "" {
			t.Errorf("dead, the second page: %+v, %v", deadPage, err)
		}
		if !hasReport {
			return
		}
		for _, name := range []string{"", salesReport} {
			if page, err := s.Parked(t.Context(), ops.ParkedQuery{Consumer: name}); err != nil || len(page.Items) != 1 || page.Items[0].Consumer != salesReport {
				t.Errorf("parked: %+v, %v", page, err)
			}
		}
		consumed, err := s.Consumed(t.Context(), salesReport, published[0])
		if err != nil || !consumed.Done || consumed.State != "parked" {
			t.Errorf("consumed: %+v, %v", consumed, err)
		}
		if _, err := s.Consumed(t.Context(), "nobody", published[0]); err == nil {
			t.Error("an unknown consumer is no error")
		}
		if text, err := json.Marshal([]any{st, life, deadPage}); err != nil || strings.Contains(string(text), "lines") {
			t.Errorf("part of a payload is shown: %v", err)
		}
	})
}

func keptOf(k kind, published []uuid.UUID) int {
	if k.deletes {
		return 0
	}
	return len(published)
}

// A million rows: every view answers within a second. It is a measurement: run it with
// OUTBOXGEN_MILLION=1.
func TestMillionRows(t *testing.T) {
	if !million() {
		return // a measurement, no test
	}
	eachKind(t, keptKinds, func(t *testing.T, k kind, server dbtest.Database, db *outbox.DB) {
		fillMillion(t, k, db)
		s := operations(t, k, server)
		var some string
		if err := db.QueryRowContext(t.Context(), "SELECT event_id FROM outbox_event WHERE status = 2 ORDER BY event_id DESC LIMIT 1 OFFSET 500").Scan(&some); err != nil {
			t.Fatal(err)
		}
		for name, view := range map[string]func(context.Context) (any, error){
			"status": func(ctx context.Context) (any, error) { return s.Status(ctx) },
			"show": func(ctx context.Context) (any, error) {
				life, err := s.Show(ctx, uuid.MustParse(some))
				if err == nil && life.Event == nil {
					err = errors.New("the event was not found")
				}
				return life, err
			},
			"find":         func(ctx context.Context) (any, error) { return s.Find(ctx, ops.Query{}) },
			"find type":    func(ctx context.Context) (any, error) { return s.Find(ctx, ops.Query{Type: "order.cancelled"}) },
			"find pending": func(ctx context.Context) (any, error) { return s.Find(ctx, ops.Query{Status: "pending"}) },
			"find dead":    func(ctx context.Context) (any, error) { return s.Find(ctx, ops.Query{Status: "dead"}) },
			"find aggregate": func(ctx context.Context) (any, error) {
				return s.Find(ctx, ops.Query{AggregateType: "order", AggregateID: "77"})
			},
			"consumed": func(ctx context.Context) (any, error) {
				return s.Consumed(ctx, s.Model().Consumers[0].Name.Text, uuid.MustParse(some))
			},
			"overtaken": func(ctx context.Context) (any, error) {
				return s.Overtaken(ctx, ops.Event{AggregateType: "order", AggregateID: "77", AggregateVersion: 1})
			},
			"show unknown": func(ctx context.Context) (any, error) { return s.Show(ctx, outbox.NewEventID()) },
			"dead":         func(ctx context.Context) (any, error) { return s.Dead(ctx, ops.DeadQuery{}) },
			"parked":       func(ctx context.Context) (any, error) { return s.Parked(ctx, ops.ParkedQuery{}) },
			"audit":        func(ctx context.Context) (any, error) { return s.Audit(ctx, ops.AuditQuery{}) },
		} {
			var took [2]time.Duration
			for i := range took {
				start := time.Now()
				if _, err := view(t.Context()); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				took[i] = time.Since(start)
			}
			fmt.Printf("%-14s %-6s %-16s first %5d ms, then %5d ms\n", server.Flavor, k.name, name, took[0].Milliseconds(), took[1].Milliseconds())
		}
	})
}
