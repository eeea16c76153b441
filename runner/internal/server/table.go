package server

import (
	"sandglass/runner/internal/archive"
	"sandglass/runner/internal/files"
	"sandglass/runner/internal/network"
	"sandglass/runner/internal/wire"
)

// A table says what answers each type of request.
type table struct {
	handlers map[string]wire.Handler
	streams  map[string]wire.StreamHandler
	// admissions run while the requests of a connection are still in order, before
	// the handler of the same type starts.
	admissions map[string]func(*wire.Request) error
}

func (run *Server) newTable() table {
	own := map[string]wire.Handler{
		"ping":     func(*wire.Request) (wire.Fields, []byte, error) { return wire.Fields{"ok": true}, nil, nil },
		"ports":    func(q *wire.Request) (wire.Fields, []byte, error) { return network.AnswerPorts(run.cfg, q) },
		"stats":    run.answerStats,
		"shutdown": run.answerShutdown,
	}
	return table{
		handlers: merge(own, run.shells.Handlers(), run.processes.Handlers(), files.Handlers(run.cfg)),
		streams: merge(map[string]wire.StreamHandler{"dial": network.Dial}, run.shells.Streams(), run.processes.Streams(),
			files.Streams(run.cfg), archive.Streams(run.cfg)),
		admissions: map[string]func(*wire.Request) error{"exec": run.shells.AdmitExec},
	}
}

// streamFor gives the handler that takes over the connection of a request; nil when the request has a reply alone.
// exec, fs.list and fs.search have both forms; every other type has one.
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
