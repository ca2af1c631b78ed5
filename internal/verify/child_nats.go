package verify

import (
	"context"

	"github.com/outboxgen/outboxgen/internal/natsserver"
)

// serveNATS is a NATS server in a process of its own, which can be killed.
func (c *child) serveNATS(ctx context.Context) error {
	server, err := natsserver.Start(natsserver.Config{Dir: c.Dir, Port: c.Port})
	if err != nil {
		return err
	}
	defer server.Close()
	c.tell(line{Kind: lineReady, Result: server.Addr()})
	<-ctx.Done()
	return nil
}
