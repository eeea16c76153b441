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

// A source is one output that an attached client follows.
type source struct {
	kind   string
	reader *outputReader
	// isScreen: a terminal shows it, so what is old must not make that terminal answer again.
	isScreen bool
}

// attach adds a source. A client that is cut off because it does not read is not waited for either.
func (s *stream) attach(kind string, out *output, from int64) source {
	reader := out.attach(from)
	reader.onCut = s.closeSoon
	return source{kind: kind, reader: reader}
}

func (s *stream) closeSoon() { time.AfterFunc(cutGrace, func() { s.conn.Close() }) }

// follow passes the sources to the client and each message of the client to
// take, until the sources are at their end, when exit says what the client is told, or until the client closes.
func (s *stream) follow(sources []source, take func(*message) error, exit func() fields) error {
	output, input := make(chan error, len(sources)), make(chan error, 1)
	for _, src := range sources {
		go func(src source) { output <- s.sendOutput(src, noLimit) }(src)
	}
	go func() { input <- s.takeMessages(take) }()
	for range sources {
		select {
		case err := <-output:
			if err != nil {
				return err
			}
		case err := <-input:
			return err
		}
	}
	// A client that is writing when we close finds a broken pipe and never reads the exit: closing is left to it.
	if err := s.send("exit", exit(), nil); err != nil {
		return err
	}
	select {
	case <-input:
	case <-time.After(exitGrace):
	}
	return nil
}

// sendKept passes on what the sources have so far, and then the end.
func (s *stream) sendKept(sources []source) error {
	for _, src := range sources {
		last := src.reader.out.position()
		if err := s.sendOutput(src, func(int64) (int64, bool) { return last, true }); err != nil {
			return err
		}
	}
	return s.send("kept", nil, nil)
}

// sendOutput passes on one source as far as until says: see outputReader.next.
func (s *stream) sendOutput(src source, until func(end int64) (limit int64, isEnd bool)) error {
	buf := make([]byte, 32<<10)
	if src.isScreen {
		if err := s.sendOld(src, buf); err != nil {
			return err
		}
	}
	for {
		offset, n, err := src.reader.next(buf, until)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.send(src.kind, fields{"offset": offset}, buf[:n]); err != nil {
			return err
		}
	}
}

// sendOld passes on what a screen showed before this client attached, without what its terminal would answer.
func (s *stream) sendOld(src source, buf []byte) error {
	var old []byte
	first := src.reader.at
	for {
		_, n, err := src.reader.next(buf, func(int64) (int64, bool) { return src.reader.kept, true })
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		old = append(old, buf[:n]...)
	}
	for _, part := range withoutQueries(old, first > 0) {
		for from := part.from; from < part.to; from += len(buf) {
			piece := old[from:min(part.to, from+len(buf))]
			if err := s.send(src.kind, fields{"offset": first + int64(from)}, piece); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *stream) takeMessages(take func(*message) error) error {
	for {
		m, err := s.next()
		if err != nil {
			return err
		}
		if err := take(m); err != nil {
			return err
		}
	}
}
