package natsjs

import "github.com/nats-io/nats.go"

// ConnOptions are the options that a connection of a relay or a consumer should
// be opened with, before your own:
//
//   - It reconnects for ever. By default nats.go closes the connection for good
//     after 60 attempts, about two minutes.
//   - Nothing is buffered while it is disconnected. By default nats.go holds up to
//     8 MiB and sends it after the reconnect, so that a message whose
//     publisher has long given up still arrives, and may arrive after a newer
//     one. The relay keeps its events in the table; it needs no second buffer.
func ConnOptions(own ...nats.Option) []nats.Option {
	return append([]nats.Option{nats.MaxReconnects(-1), nats.ReconnectBufSize(-1)}, own...)
}
