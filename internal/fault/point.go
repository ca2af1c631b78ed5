package fault

// Point is a boundary of the runtime at which something may break.
type Point string

// The points of a writer, in the order in which it passes them.
const (
	WriterBegun     Point = "W1" // the transaction has begun
	WriterBusiness  Point = "W2" // the business change is made, the event isn't written
	WriterEvent     Point = "W3" // the event is written
	WriterCommit    Point = "W4" // COMMIT isn't sent yet
	WriterReply     Point = "W5" // the server has committed, the writer doesn't know it yet
	WriterZombie    Point = "W6" // COMMIT arrives after its connection is lost; on the wire only
	WriterCommitted Point = "W7" // the writer knows that it is committed
)

// The points of a relay.
const (
	RelaySelected  Point = "R1"  // a claim has locked what is due
	RelayLeased    Point = "R2"  // the claim has written its leases
	RelayCommit    Point = "R3"  // the claim's COMMIT isn't sent yet
	RelayReply     Point = "R4"  // the claim is committed, the relay doesn't know it yet
	RelayPublish   Point = "R5"  // nothing is handed to the broker yet
	RelaySent      Point = "R6"  // sent, and not confirmed
	RelayConfirmed Point = "R7"  // confirmed, nothing is marked
	RelayMark      Point = "R8"  // the mark's COMMIT isn't sent yet
	RelayMarkReply Point = "R9"  // the mark is committed, the relay doesn't know it yet
	RelayMarked    Point = "R10" // the relay knows that it is marked
	RelayOverdue   Point = "R11" // between confirm and mark, where a relay is paused past its lease
)

// The points of a consumer.
const (
	ConsumerDelivered Point = "C1" // a message was delivered, nothing is begun
	ConsumerDedup     Point = "C2" // the dedup row is inserted
	ConsumerEffect    Point = "C3" // the handler has returned
	ConsumerCommit    Point = "C4" // COMMIT isn't sent yet
	ConsumerReply     Point = "C5" // the server has committed, the consumer doesn't know it yet
	ConsumerZombie    Point = "C6" // COMMIT arrives after its connection is lost; on the wire only
	ConsumerCommitted Point = "C7" // committed, not acknowledged
	ConsumerAcked     Point = "C8" // the acknowledgement is sent, and may get lost
	ConsumerOverdue   Point = "C9" // in the transaction, where a consumer is paused past the time to acknowledge
)

// Points are all of them.
var Points = []Point{
	WriterBegun, WriterBusiness, WriterEvent, WriterCommit, WriterReply, WriterZombie, WriterCommitted,
	RelaySelected, RelayLeased, RelayCommit, RelayReply, RelayPublish, RelaySent, RelayConfirmed,
	RelayMark, RelayMarkReply, RelayMarked, RelayOverdue,
	ConsumerDelivered, ConsumerDedup, ConsumerEffect, ConsumerCommit, ConsumerReply, ConsumerZombie,
	ConsumerCommitted, ConsumerAcked, ConsumerOverdue,
}

// OnWire reports whether a point exists between client and server only: no code of the
// runtime passes it.
func (p Point) OnWire() bool { return p == WriterZombie || p == ConsumerZombie }

// Scope says whose a transaction is.
type Scope int

// The scopes. Others are transactions without points: renewals, reconciling reads,
// what is written down after a failure.
const (
	Writer Scope = iota
	Claim
	Mark
	Consumer
	Other
)

// step is a moment of any transaction.
type step int

const (
	begun step = iota
	unsent
	reply
	committed
	steps
)

var txPoints = [...][steps]Point{
	Writer:   {WriterBegun, WriterCommit, WriterReply, WriterCommitted},
	Claim:    {unsent: RelayCommit, reply: RelayReply},
	Mark:     {unsent: RelayMark, reply: RelayMarkReply},
	Consumer: {unsent: ConsumerCommit, reply: ConsumerReply},
	Other:    {},
}
