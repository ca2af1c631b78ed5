package cli

import (
	"testing"
	"time"
)

// A day is as long as it is in its zone.
func TestReconcileDay(t *testing.T) {
	for _, c := range []struct {
		day, zone, from string
		hours           time.Duration
	}{
		{"2026-11-30", "UTC", "2026-11-30T00:00:00Z", 24},
		{"2026-03-29", "Europe/Berlin", "2026-03-28T23:00:00Z", 23},
		{"2026-10-25", "Europe/Berlin", "2026-10-24T22:00:00Z", 25},
	} {
		f := reconcileFlags{day: c.day, zone: c.zone, publish: time.Minute, apply: time.Minute, limit: 1}
		o, err := f.options(time.Now())
		if err != nil || o.From.Format(time.RFC3339) != c.from || o.To.Sub(o.From) != c.hours*time.Hour {
			t.Errorf("%s in %s: %s to %s, %v", c.day, c.zone, o.From, o.To, err)
		}
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "now", 90 * time.Second: "1m ago", 49 * time.Hour: "2d ago"} {
		if got := age(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}
