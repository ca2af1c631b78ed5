package lint

import (
	"fmt"
	"time"

	"github.com/outboxgen/outboxgen/internal/spec"
)

func (l *linter) consumers() {
	retention, kept := l.model.Broker.Retention, l.model.Outbox.KeepPublished
	for i, c := range l.model.Consumers {
		name := c.Name.Text
		if i == 0 && retention == 0 {
			l.report("broker-retention-unset", subject{name}, c.Name, "nothing says how long the broker can deliver a message again, which the consumers' retain has to outlive",
				"set broker.retention to the longest time that the broker keeps a message, such as 168h")
		}
		if c.Deprecated != "" {
			continue
		}
		if c.Doc == "" {
			l.report("doc-missing", subject{name}, c.Name, fmt.Sprintf("the consumer %q has no doc", name), "say what it does with the events")
		}
		l.retain(c, "retain-below-broker", retention, "the broker can deliver a message again", "broker.retention")
		l.retain(c, "retain-below-kept", kept, "a published event is kept and can be published again", "outbox.keep_published")
	}
}

// retain compares how long dedup rows are kept with how long a message can come back.
func (l *linter) retain(c *spec.Consumer, rule string, other time.Duration, why, key string) {
	if c.Retain >= other {
		return
	}
	l.report(rule, subject{c.Name.Text}, c.Name,
		fmt.Sprintf("the consumer %q retains its dedup rows for %s, and %s for %s", c.Name.Text, Hours(c.Retain), why, Hours(other)),
		fmt.Sprintf("set its retain to more than %s, or lower %s", Hours(other), key))
}

// Hours is a duration as it is written in the file.
func Hours(d time.Duration) string {
	if d%time.Hour == 0 {
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return d.String()
}
