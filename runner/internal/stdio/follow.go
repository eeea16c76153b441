package stdio

import (
	"errors"
	"io"
	"time"

	"sandglass/runner/internal/terminal"
	"sandglass/runner/internal/wire"
)

const (
	cutGrace  = 5 * time.Second // until the connection of a slow reader closes after the error
	exitGrace = 2 * time.Second // for a client to close after it was sent the exit

	storeGrace = 30 * time.Second // for a client to acknowledge the last output after it was sent the exit
)

// A Source is one output that an attached client follows.
type Source struct {
	kind   string
	Reader *Reader
	// IsScreen: a terminal shows this output, so output from before the attachment is sent without queries.
	IsScreen bool
}

// NewSource attaches a client to an output. Its messages have the type kind.
func NewSource(s *wire.Stream, kind string, out *Output, from int64) Source {
	return Source{kind: kind, Reader: Attach(s, out, from)}
}

// Attach attaches a client to an output. The connection of a client that is cut off because it does not read
// closes shortly after.
func Attach(s *wire.Stream, out *Output, from int64) *Reader {
	reader := out.attach(from)
	reader.onCut = func() { time.AfterFunc(cutGrace, func() { s.Conn.Close() }) }
	return reader
}

// Follow sends the sources to the client and passes each message of the client to take. It ends when the client
// closes, or after the end of all sources: then it sends the fields that exit returns.
func Follow(s *wire.Stream, sources []Source, take func(*wire.Message) error, exit func() wire.Fields) error {
	output, input := make(chan error, len(sources)), make(chan error, 1)
	for _, src := range sources {
		go func(src Source) { output <- sendOutput(s, src, NoLimit) }(src)
	}
	go func() { input <- takeMessages(s, take) }()
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
	// The client closes first: closing while it writes would break its pipe before it reads the exit.
	if err := s.Send("exit", exit(), nil); err != nil {
		return err
	}
	select {
	case <-input:
	case <-time.After(graceAfterExit(sources)):
	}
	return nil
}

func graceAfterExit(sources []Source) time.Duration {
	for _, src := range sources {
		if src.Reader.out.HasUnacknowledged() {
			return storeGrace
		}
	}
	return exitGrace
}

// SendSoFar sends the output that the sources have now, then the kept message.
func SendSoFar(s *wire.Stream, sources []Source) error {
	for _, src := range sources {
		last := src.Reader.out.Position()
		if err := sendOutput(s, src, func(int64) (int64, bool) { return last, true }); err != nil {
			return err
		}
	}
	return s.Send("kept", nil, nil)
}

// sendOutput sends one source up to the limit that until sets; see Reader.Next.
func sendOutput(s *wire.Stream, src Source, until func(end int64) (limit int64, isEnd bool)) error {
	buf := make([]byte, 32<<10)
	if src.IsScreen {
		if err := sendOld(s, src, buf); err != nil {
			return err
		}
	}
	for {
		offset, n, err := src.Reader.Next(buf, until)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.Send(src.kind, wire.Fields{"offset": offset}, buf[:n]); err != nil {
			return err
		}
	}
}

// sendOld sends the output from before this client attached, without terminal queries.
func sendOld(s *wire.Stream, src Source, buf []byte) error {
	var old []byte
	first := src.Reader.at
	for {
		_, n, err := src.Reader.Next(buf, func(int64) (int64, bool) { return src.Reader.oldEnd, true })
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		old = append(old, buf[:n]...)
	}
	for _, part := range terminal.WithoutQueries(old, first > 0) {
		for from := part.From; from < part.To; from += len(buf) {
			piece := old[from:min(part.To, from+len(buf))]
			if err := s.Send(src.kind, wire.Fields{"offset": first + int64(from)}, piece); err != nil {
				return err
			}
		}
	}
	return nil
}

func takeMessages(s *wire.Stream, take func(*wire.Message) error) error {
	for {
		m, err := s.Next()
		if err != nil {
			return err
		}
		if err := take(m); err != nil {
			return err
		}
	}
}
