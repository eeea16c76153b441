package main

import "errors"

// attachProcess passes a process's output to a client and the client's input to
// the process, until the process ends or the client closes.
func attachProcess(run *runner, s *stream, q *request) error {
	p, call, err := run.processOf(q)
	if err != nil {
		return err
	}
	sources := []source{s.attach("stdout", p.stdout, call.StdoutFrom)}
	// What the first client gets is no repetition: a program may wait for the answer.
	sources[0].isScreen = p.term != nil && !sources[0].reader.isNew
	if p.stderr != nil {
		sources = append(sources, s.attach("stderr", p.stderr, call.StderrFrom))
	}
	for _, src := range sources {
		defer src.reader.detach()
	}
	if err := s.reply(fields{"process": p.describe()}); err != nil {
		return err
	}
	if call.Follow != nil && !*call.Follow && !p.hasEnded() {
		return s.sendKept(sources)
	}
	return s.follow(sources, p.inputOf(s), func() fields {
		<-p.ended
		end := p.describe()
		return fields{"exit_code": end["exit_code"], "timed_out": end["timed_out"]}
	})
}

// inputOf does what an attached client says.
func (p *process) inputOf(s *stream) func(*message) error {
	return func(m *message) error {
		var call processCall
		if err := m.decode(&call); err != nil {
			return err
		}
		switch m.Type {
		case "stdin":
			return feedFrom(m.body, func(data []byte) error { return p.feed(data, s.isGone) })
		case "stdin_eof":
			p.endInput(s.isGone)
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
}
