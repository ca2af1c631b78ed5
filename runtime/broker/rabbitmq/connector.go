package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Connector says how to connect to the broker. Publishers and subscriptions open connections
// of their own with it, and open them anew when they are lost.
type Connector struct {
	// URLs are the broker's nodes, such as amqps://user:password@host:5671/vhost.
	// Required. They are tried in turn until one answers.
	URLs []string

	// Config is the client library's. Recovery is left out of it: this package
	// reconnects by itself, for a confirm must never be taken for one of another
	// connection. The zero value is good.
	Config amqp.Config

	// DialTimeout bounds connecting and the handshake. Defaults to 10 s.
	DialTimeout time.Duration

	// WriteTimeout is how long the broker may take nothing of what is written before
	// the connection counts as lost. The client library has no such limit, and a write to
	// a broker that has stopped reading would never end
	// (https://github.com/rabbitmq/amqp091-go/issues/122). Defaults to 10 s.
	WriteTimeout time.Duration
}

func (c Connector) withDefaults() Connector {
	defaultTo(&c.DialTimeout, 10*time.Second)
	defaultTo(&c.WriteTimeout, 10*time.Second)
	return c
}

func (c Connector) validate() error {
	if len(c.URLs) == 0 {
		return errors.New("rabbitmq: Connector.URLs is required")
	}
	for _, url := range c.URLs {
		if _, err := amqp.ParseURI(url); err != nil {
			return errors.New("rabbitmq: Connector.URLs has one that isn't an AMQP URL") // it may hold a password
		}
	}
	if c.DialTimeout < 0 || c.WriteTimeout < 0 {
		return errors.New("rabbitmq: Connector.DialTimeout and WriteTimeout can't be negative")
	}
	return nil
}

// connection is one connection to the broker and the socket below it.
type connection struct {
	*amqp.Connection
	socket *socket
}

// dial connects to the first node that answers.
func (c Connector) dial(ctx context.Context) (*connection, error) {
	var errs []error
	for _, url := range c.URLs {
		conn, err := c.dialOne(ctx, url)
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("connect: %w", errors.Join(errs...))
}

func (c Connector) dialOne(ctx context.Context, url string) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, c.DialTimeout)
	defer cancel()
	cfg := c.fresh()
	open := cfg.Dial
	if open == nil {
		open = func(network, addr string) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, network, addr) }
	}
	var s *socket
	stop := func() bool { return true }
	cfg.Dial = func(network, addr string) (net.Conn, error) {
		conn, err := open(network, addr)
		if err != nil {
			return nil, err
		}
		s = &socket{Conn: conn, timeout: c.WriteTimeout}
		stop = context.AfterFunc(ctx, func() { _ = conn.Close() }) // the handshake doesn't know ctx
		return s, nil
	}
	conn, err := amqp.DialConfig(url, cfg)
	if !stop() {
		err = errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		if s != nil {
			_ = s.Close() // it may be closed already
		}
		return nil, err
	}
	return &connection{Connection: conn, socket: s}, nil
}

// fresh is the client library's configuration for one connection. The library writes its
// capabilities into the properties, and the first node's name into the TLS settings.
func (c Connector) fresh() amqp.Config {
	cfg := c.Config
	cfg.Recovery = nil
	cfg.Properties = maps.Clone(cfg.Properties)
	if cfg.TLSClientConfig != nil {
		cfg.TLSClientConfig = cfg.TLSClientConfig.Clone()
	}
	return cfg
}

// cut ends the connection without a word to the broker. Closing it properly can block
// behind a write to a broker that doesn't read.
func (c *connection) cut() { _ = c.socket.Close() }

// end closes the connection properly, within the bound.
func (c *connection) end(bound time.Duration) {
	timer := time.AfterFunc(bound, c.cut)
	defer timer.Stop()
	_ = c.CloseDeadline(time.Now().Add(bound)) // there is nobody to tell
}

// version is the broker's, empty when it doesn't say.
func (c *connection) version() string {
	v, _ := c.Properties["version"].(string)
	return v
}

// socket gives every write a deadline.
type socket struct {
	net.Conn
	timeout time.Duration
}

func (s *socket) Write(b []byte) (int, error) {
	if err := s.SetWriteDeadline(time.Now().Add(s.timeout)); err != nil {
		return 0, err
	}
	return s.Conn.Write(b)
}

func defaultTo[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// sleep reports whether the time passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// backoff is the pause after the nth failure in a row: base, doubled with each up to
// maximum, and varied by a fifth either way so that what failed together doesn't try
// again together.
func backoff(base, maximum time.Duration, n int) time.Duration {
	d := maximum
	if n--; n < 32 && base < maximum>>n {
		d = base << n
	}
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}
