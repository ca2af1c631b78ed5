package outbox

import "sync"

// wakes tells the relays of a process that events were committed.
type wakes struct {
	mu          sync.Mutex
	subscribers map[chan struct{}]struct{}
}

// Wake tells the relays of this process that work on db that events were
// committed, so that they need not find out by a poll. [InTx] calls it after a
// transaction that wrote an event; call it yourself after the commit of a *sql.Tx.
func (db *DB) Wake() {
	db.wakes.mu.Lock()
	defer db.wakes.mu.Unlock()
	for wake := range db.wakes.subscribers {
		select {
		case wake <- struct{}{}:
		default: // it has one to read already
		}
	}
}

// Wakes implements [Waker], for stores.
func (db *DB) Wakes() (wake <-chan struct{}, stop func()) {
	channel := make(chan struct{}, 1)
	db.wakes.mu.Lock()
	defer db.wakes.mu.Unlock()
	if db.wakes.subscribers == nil {
		db.wakes.subscribers = map[chan struct{}]struct{}{}
	}
	db.wakes.subscribers[channel] = struct{}{}
	return channel, func() {
		db.wakes.mu.Lock()
		defer db.wakes.mu.Unlock()
		delete(db.wakes.subscribers, channel)
	}
}
