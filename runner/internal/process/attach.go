package process

import (
	"errors"

	"sandglass/runner/internal/stdio"
	"sandglass/runner/internal/terminal"
	"sandglass/runner/internal/wire"
)

// attach sends the output of a process to a client and the client's input to the process, until the process ends or
// the client closes.
func (ps *Table) attach(s *wire.Stream, q *wire.Request) error {
	p, call, err := ps.requested(q)
	if err != nil {
		return err
	}
	sources := []stdio.Source{stdio.NewSource(s, "stdout", p.Stdout, call.StdoutFrom)}
	// The first client sees the output for the first time: a program may wait for the answer to a query in it.
	// A client that stores the output gets all of it each time.
	sources[0].IsScreen = p.term != nil && !sources[0].Reader.IsNew && !p.spec.KeepOutput
	if p.stderr != nil {
		sources = append(sources, stdio.NewSource(s, "stderr", p.stderr, call.StderrFrom))
	}
	for _, src := range sources {
		defer src.Reader.Detach()
	}
	reply := p.acknowledged()
	reply["process"] = p.Describe()
	if err := s.Reply(reply); err != nil {
		return err
	}
	if call.Follow != nil && !*call.Follow && !p.hasEnded() {
		return stdio.SendSoFar(s, sources)
	}
	return stdio.Follow(s, sources, p.InputOf(s), func() wire.Fields {
		<-p.Ended
		end := p.Describe()
		return wire.Fields{"exit_code": end["exit_code"], "timed_out": end["timed_out"]}
	})
}

// InputOf returns the function that carries out the messages of an attached client.
func (p *Process) InputOf(s *wire.Stream) func(*wire.Message) error {
	return func(m *wire.Message) error {
		var call call
		if err := m.Decode(&call); err != nil {
			return err
		}
		switch m.Type {
		case "stdin":
			return stdio.Copy(m.Body, func(data []byte) error { return p.write(data, s.IsGone) })
		case "stdin_eof":
			p.endInput(s.IsGone)
			return nil
		case "signal":
			err := p.Signal(call.Signal, call.Group == nil || *call.Group)
			var known *wire.Error
			if errors.As(err, &known) && known.Code == wire.CodeProcessNotFound {
				return nil // it has ended meanwhile; the exit message says so
			}
			return err
		case "ack":
			return p.acknowledge(&call)
		case "resize":
			if err := terminal.CheckSize(call.Rows, call.Cols); err != nil || p.term == nil {
				return err
			}
			_ = p.term.Resize(call.Rows, call.Cols) // fails once the terminal is closed; the exit message says so
			return nil
		}
		return wire.Invalid("unknown message type %q", m.Type)
	}
}
