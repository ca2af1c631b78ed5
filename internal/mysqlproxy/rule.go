package mysqlproxy

import (
	"slices"
	"strings"
)

// Action is what the proxy does at a statement.
type Action int

// The actions.
const (
	// CutRequest breaks both connections before the server sees the statement.
	CutRequest Action = iota
	// CutReply lets the server run the statement, waits for its reply, and
	// breaks the client's connection without passing it on.
	CutReply
	// HoldRequest breaks the client's connection at once and hands the statement
	// to the server only when told: a zombie.
	HoldRequest
	// Stall lets nobody notice: the statement waits until told, and is
	// answered as ever. The client, or its whole process, seems to stand still with
	// its transaction open.
	Stall
	// Answer keeps the statement from the server and answers it with Rule.Error.
	Answer
)

// ServerError is an error as a server answers it.
type ServerError struct {
	Number  uint16
	State   string // SQLSTATE, five characters
	Message string

	// RollsBack: the server rolls the transaction back, as with 1213 or a refused COMMIT.
	RollsBack bool
}

// Rule is a fault that is to come.
type Rule struct {
	Action Action
	Match  func(statement string) bool

	// Commit: the fault happens at the COMMIT of a transaction that has sent a statement
	// that matches. Defaults to false, at the statement itself.
	Commit bool

	// After, when set, lets only statements match that come after one that it accepts, in the
	// same transaction.
	After func(statement string) bool

	// Nth is at which match it happens. Defaults to 1, the first.
	Nth int

	// Error is what Answer says.
	Error ServerError

	// Sever: with CutRequest or CutReply the client loses all its connections, and gets no
	// new one, as if its process had died.
	Sever bool
}

// Fault is an action that happens once.
type Fault struct {
	rule Rule
	left int // matches until it happens

	// Hit is closed when the statement came by.
	Hit chan struct{}
	// Done is closed when the server has answered it, of CutReply and HoldRequest, and when the
	// client has its error, of Answer.
	Done chan struct{}
	// Forward, when closed, lets HoldRequest and Stall go on.
	Forward chan struct{}
	// Drop, when closed, lets Stall end in a CutRequest.
	Drop chan struct{}
}

// Arm arms a fault.
func (p *Proxy) Arm(r Rule) *Fault {
	f := &Fault{
		rule: r, left: max(r.Nth, 1),
		Hit: make(chan struct{}), Done: make(chan struct{}), Forward: make(chan struct{}), Drop: make(chan struct{}),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, f)
	return f
}

// At arms a fault for the next statement that match accepts.
func (p *Proxy) At(action Action, match func(statement string) bool) *Fault {
	return p.Arm(Rule{Action: action, Match: match})
}

// AtCommit arms a fault for the COMMIT of the next transaction that has sent a
// statement that match accepts.
func (p *Proxy) AtCommit(action Action, match func(statement string) bool) *Fault {
	return p.Arm(Rule{Action: action, Match: match, Commit: true})
}

// Disarm takes a fault back that has not happened.
func (p *Proxy) Disarm(f *Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = slices.DeleteFunc(p.faults, func(armed *Fault) bool { return armed == f })
}

// Nth matches the nth statement, from 1 on.
func Nth(n int) func(string) bool {
	return func(string) bool { n--; return n == 0 }
}

// Is matches a statement by its whole text.
func Is(text string) func(string) bool { return func(s string) bool { return s == text } }

// Has matches a statement by a part of its text.
func Has(text string) func(string) bool {
	return func(s string) bool { return strings.Contains(s, text) }
}

// take notes a statement of a link and returns the fault that is to happen there.
func (l *link) take(statement string) *Fault {
	if n := len(l.sent); strings.HasPrefix(statement, "START TRANSACTION") || n > 0 && ends(l.sent[n-1]) {
		l.sent = nil
	}
	before := l.sent
	l.sent = append(l.sent, statement)
	p := l.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, sent{l, statement})
	for i, f := range p.faults {
		if !f.matches(statement, before) {
			continue
		}
		if f.left--; f.left == 0 {
			p.faults = append(p.faults[:i:i], p.faults[i+1:]...)
			close(f.Hit)
			return f
		}
	}
	return nil
}

// matches tells whether a statement matches, by what its transaction has sent before.
func (f *Fault) matches(statement string, before []string) bool {
	if f.rule.Commit {
		return statement == "COMMIT" && slices.ContainsFunc(before, f.rule.Match)
	}
	return (f.rule.After == nil || slices.ContainsFunc(before, f.rule.After)) && f.rule.Match(statement)
}
