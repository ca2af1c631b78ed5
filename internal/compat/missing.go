package compat

import (
	"fmt"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// Addition is a version or a consumer that is new.
type Addition struct {
	Pos  diag.Pos
	Text string // `version 2 of "order.accepted"`
}

// Removed reports whether base has an event or a version that current doesn't.
func Removed(base, current *spec.Model) bool {
	for _, was := range base.Events {
		is := eventOf(current, was.Name.Text)
		for _, v := range was.Versions {
			if is == nil || versionOf(is, v.Number) == nil {
				return true
			}
		}
	}
	return false
}

// Missing are the versions and consumers of current that base doesn't have.
func Missing(base, current *spec.Model) []Addition {
	var list []Addition
	for _, ev := range current.Events {
		was := eventOf(base, ev.Name.Text)
		for _, v := range ev.Versions {
			if was == nil || versionOf(was, v.Number) == nil {
				list = append(list, Addition{v.Pos, fmt.Sprintf("version %d of %q", v.Number, ev.Name.Text)})
			}
		}
	}
	for _, con := range current.Consumers {
		if consumerOf(base, con.Name.Text) == nil {
			list = append(list, Addition{con.Name.Pos, fmt.Sprintf("the consumer %q", con.Name.Text)})
		}
	}
	return list
}
