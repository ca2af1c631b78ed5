package doctor

import (
	"strings"
	"testing"
	"time"
)

func TestKept(t *testing.T) {
	for want, change := range map[string]func(c *Config){
		"": func(*Config) {},
		"warning retain-below-broker, warning retain-below-broker": func(c *Config) { c.Model.Broker.Retention = 9000 * time.Hour },
		"warning retain-below-kept":                                func(c *Config) { c.Model.Outbox.KeepPublished = 1000 * time.Hour },
		"note kept-below-reconcile":                                func(c *Config) { c.Model.Outbox.KeepPublished = 24 * time.Hour },
		"note broker-retention-unset":                              func(c *Config) { c.Model.Broker.Retention = 0 },
	} {
		var r Report
		l := &look{cfg: Config{Model: model(t, "lanes")}, report: &r}
		change(&l.cfg)
		l.kept()
		if got := strings.Join(rulesOf(r), ", "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
