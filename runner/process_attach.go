package main

import (
	"errors"
	"io"
	"time"
)

const (
	cutGrace  = 5 * time.Second // for a slow reader to take the error, before its connection closes
	exitGrace = 2 * time.Second // for a client to close after it was told the exit
)

// attachProcess passes a process's output to a client and the client's input to
// the process, until the process ends or the client closes.
func attachProcess(run *runner, s *stream, q *request) error {
	p, call, err := run.processOf(q)
	if err != nil {
		return err
	}
	type source struct {
		kind   string
		reader *outputReader
	}
	sources := []source{{"stdout", p.stdout.attach(call.StdoutFrom)}}
	if p.stderr != nil {
		sources = append(sources, source{"stderr", p.stderr.attach(call.StderrFrom)})
	}
	ends := make(chan error, len(sources))
	for _, src := range sources {
		src.reader.onCut = func() { time.AfterFunc(cutGrace, func() { s.conn.Close() }) }
		defer src.reader.detach()
	}
	if err := s.reply(fields{"process": p.describe()}); err != nil {
		return err
	}
	for _, src := range sources {
		go func(kind string, r *outputReader) { ends <- sendOutput(s, kind, r) }(src.kind, src.reader)
	}
	input := make(chan error, 1)
	go func() { input <- p.takeInput(s) }()
	for range sources {
		select {
		case err := <-ends:
			if err != nil {
				return err
			}
		case err := <-input:
			return err
		}
	}
	<-p.ended
	end := p.describe()
	return sendExit(s, fields{"exit_code": end["exit_code"], "timed_out": end["timed_out"]}, input)
}

// sendExit tells the end and leaves closing to the client, which input ends with.
// A client that is writing when we close finds a broken pipe and never reads the exit.
func sendExit(s *stream, f fields, input <-chan error) error {
	if err := s.send("exit", f, nil); err != nil {
		return err
	}
	select {
	case <-input:
	case <-time.After(exitGrace):
	}
	return nil
}

// sendOutput sends one stream to its end.
func sendOutput(s *stream, kind string, r *outputReader) error {
	buf := make([]byte, 32<<10)
	for {
		offset, n, err := r.next(buf, nil)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.send(kind, fields{"offset": offset}, buf[:n]); err != nil {
			return err
		}
	}
}

// takeInput does what the client says until it closes.
func (p *process) takeInput(s *stream) error {
	for {
		m, err := s.next()
		if err != nil {
			return err
		}
		if err := p.takeMessage(m); err != nil {
			return err
		}
	}
}

func (p *process) takeMessage(m *message) error {
	var call processCall
	if err := m.decode(&call); err != nil {
		return err
	}
	switch m.Type {
	case "stdin":
		return p.feedFrom(m.body)
	case "stdin_eof":
		p.endInput()
		return nil
	case "signal":
		err := p.signal(call.Signal, call.Group == nil || *call.Group)
		var known *runnerError
		if errors.As(err, &known) && known.code == codeProcessNotFound {
			return nil // it ended meanwhile, which the client is about to read
		}
		return err
	case "resize":
		if err := checkSize(call.Rows, call.Cols); err != nil || p.term == nil {
			return err
		}
		_ = p.term.resize(call.Rows, call.Cols) // fails once the terminal is closed, and the exit tells that
		return nil
	}
	return invalid("unknown message type %q", m.Type)
}

// feedFrom passes stdin on as it arrives. Input that the process does not want any more is dropped.
func (p *process) feedFrom(body io.Reader) error {
	buf := make([]byte, 16<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			p.feed(buf[:n])
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
