package server

import (
	"net"

	"sandglass/runner/internal/egress"
	"sandglass/runner/internal/wire"
)

// An egressEndpoint is the endpoint of the egress process. Its token permits the requests of package egress and nothing
// else of the runner.
type egressEndpoint struct {
	endpoint
	way *egress.Egress
}

func newEgressEndpoint(token, bootID string, way *egress.Egress) *egressEndpoint {
	return &egressEndpoint{endpoint{token, bootID, table{streams: way.Streams()}}, way}
}

// serveStream answers an egress request: after the reply, the stream is a connection to the egress endpoint.
func (e *egressEndpoint) serveStream(s *wire.Stream, _ *wire.Request) error {
	if err := s.Reply(wire.Fields{"ok": true}); err != nil {
		return err
	}
	e.serveConn(s.Conn, s.In, s.Out)
	return nil
}

// HasEgress tells whether there is an egress endpoint.
func (srv *Server) HasEgress() bool { return srv.egress != nil }

// OpenEgress opens the DNS server and the listeners of the way out, if there is one.
func (srv *Server) OpenEgress() error {
	if srv.egress == nil {
		return nil
	}
	return srv.egress.way.Open()
}

// AcceptEgress serves the connections of a listener at the egress endpoint until it is closed.
func (srv *Server) AcceptEgress(listener net.Listener) { srv.egress.accept(listener) }

// ServeEgressCarrier serves the clients on a device at the egress endpoint for as long as the runner lives.
func (srv *Server) ServeEgressCarrier(name string) error { return srv.egress.serveCarrier(name) }
