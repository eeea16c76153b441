package main

import (
	"encoding/json"
	"io"
)

// A request is one message of a client. Its body has size bytes and is read
// from the connection as it is consumed: on a shared connection the next
// request is read only when the body is at its end or the handler returned.
type request struct {
	id      string
	kind    string
	raw     json.RawMessage // the whole line
	hasBody bool
	size    int64
	body    io.Reader
	gone    <-chan struct{} // closed when a shared connection's client is done
	streams bool            // the request asks for the stream form of its type
	exec    *execution      // of an exec, from its admission on
}

// isGone tells whether the client of a shared connection is done.
func (q *request) isGone() bool {
	select {
	case <-q.gone:
		return true
	default:
		return false
	}
}

// isStream tells whether a type that has a streamHandler takes the connection
// over. exec has both forms; every other type has one.
func (q *request) isStream() bool {
	return q.streams || handlers[q.kind] == nil
}

// decode reads the request's own fields into v.
func (q *request) decode(v any) error {
	if err := json.Unmarshal(q.raw, v); err != nil {
		return invalid("%s: %v", q.kind, err)
	}
	return nil
}

// A handler answers one small request. It runs on a goroutine of its own.
// A body that is not nil travels behind the reply, which gets "bytes".
type handler func(run *runner, q *request) (reply fields, body []byte, err error)

// A streamHandler takes over the connection of its request. It sends the reply
// with s.reply, then stream messages; when it returns the connection closes. An
// error that it returns is sent first, as the reply if there was none yet.
type streamHandler func(run *runner, s *stream, q *request) error

// admissions run while the requests of a connection are still in order, before
// the handler of the same type starts.
var admissions = map[string]func(run *runner, q *request) error{
	"exec": joinShell,
}

var (
	handlers       map[string]handler
	streamHandlers map[string]streamHandler
)

// registerHandlers fills the tables; each file keeps its own.
func registerHandlers() {
	handlers = merge(coreHandlers, shellHandlers, processHandlers, fileHandlers)
	streamHandlers = merge(coreStreams, shellStreams, processStreams, fileStreams)
}

func merge[T any](tables ...map[string]T) map[string]T {
	all := map[string]T{}
	for _, table := range tables {
		for kind, h := range table {
			all[kind] = h
		}
	}
	return all
}
