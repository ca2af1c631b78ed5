package gogen

// inboxQueries are the methods of outbox.Inbox, in its order.
func inboxQueries() []query {
	return []query{
		{name: "InsertConsumed", result: "none"},
		{name: "ForgetConsumed", result: "int64"},
		{name: "CountFailure", result: "none"},
		{name: "ReadAttempts", result: "uint32"},
		{name: "InsertParked", result: "none"},
		{name: "LockParked", result: "ParkedRow"},
		{name: "FailParked", result: "none"},
		{name: "DeleteParked", result: "int64"},
		{name: "ListParked", result: "ParkedRow", many: true},
		{name: "AddVersion", result: "none"},
		{name: "LockVersion", result: "int64"},
		{name: "SetVersion", result: "none"},
		{name: "SelectRedrive", result: "RedriveRow", many: true},
		{name: "TakeRedrive", result: "int64"},
		{name: "EndRedrive", result: "none"},
		{name: "RecordOperation", result: "none"},
	}
}

// inboxFile has the statements of the consumers' tables.
func (g *generator) inboxFile() *file {
	f := g.newFile("inbox.gen.go")
	f.adapter("inbox", g.runtime, inboxQueries())
	return f
}
