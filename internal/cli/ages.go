package cli

import (
	"fmt"
	"time"
)

// when is a time for people: the time itself, and how long ago it was, or how far it is.
func when(t *time.Time, now time.Time) string {
	if t == nil || t.IsZero() {
		return "-"
	}
	if d := now.Sub(*t); d >= 0 {
		return shortTime(*t) + " (" + lasted(d) + " ago)"
	}
	return shortTime(*t) + " (in " + lasted(t.Sub(now)) + ")"
}

// lasted is a duration in its two largest units: 45s, 3m10s, 5h02m, 12d3h.
func lasted(d time.Duration) string {
	s := int64(d / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 48*3600:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	default:
		return fmt.Sprintf("%dd%dh", s/86400, s/3600%24)
	}
}
