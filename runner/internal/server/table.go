package server

import (
	"sandglass/runner/internal/archive"
	"sandglass/runner/internal/files"
	"sandglass/runner/internal/network"
	"sandglass/runner/internal/wire"
)

// A table has the handlers of each type of request.
type table struct {
	handlers map[string]wire.Handler
	streams  map[string]wire.StreamHandler
	// admissions run while the requests of a connection are still in order, before the handler of the same type
	// starts.
	admissions map[string]func(*wire.Request) error
}

func (srv *Server) newTable() table {
	own := map[string]wire.Handler{
		"ping":     func(*wire.Request) (wire.Fields, []byte, error) { return wire.Fields{"ok": true}, nil, nil },
		"ports":    func(q *wire.Request) (wire.Fields, []byte, error) { return network.AnswerPorts(srv.cfg, q) },
		"stats":    srv.answerStats,
		"shutdown": srv.answerShutdown,
	}
	ownStreams := map[string]wire.StreamHandler{"dial": network.Dial}
	if srv.egress != nil {
		ownStreams["egress"] = srv.egress.serveStream
	}
	return table{
		handlers:   merge(own, srv.shells.Handlers(), srv.processes.Handlers(), files.Handlers(srv.cfg)),
		streams:    merge(ownStreams, srv.shells.Streams(), srv.processes.Streams(), files.Streams(srv.cfg), archive.Streams(srv.cfg)),
		admissions: map[string]func(*wire.Request) error{"exec": srv.shells.AdmitExec},
	}
}

// streamFor returns the stream handler for a request; nil if the request is answered by one reply. exec, fs.list and
// fs.search have both forms; every other type has one.
func (t *table) streamFor(q *wire.Request) wire.StreamHandler {
	if q.IsStream || t.handlers[q.Kind] == nil {
		return t.streams[q.Kind]
	}
	return nil
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
