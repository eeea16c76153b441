package stdio

import (
	"errors"
	"io"
	"testing"
	"time"

	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

// readAll reads an output that is closed, from its oldest byte, and returns the offset of that byte.
func readAll(t *testing.T, o *Output, from int64) (string, int64) {
	t.Helper()
	r := o.attach(from)
	defer r.Detach()
	first, got, buf := r.at, "", make([]byte, 3)
	for {
		_, n, err := r.Next(buf, NoLimit)
		if errors.Is(err, io.EOF) {
			return got, first
		}
		if err != nil {
			t.Fatal(err)
		}
		got += string(buf[:n])
	}
}

func TestAKeptOutputWaitsForAcknowledgements(t *testing.T) {
	o := NewKeptOutput(4)
	written := make(chan struct{})
	go func() {
		o.Write([]byte("123456789"))
		close(written)
	}()
	for _, ack := range []int64{0, 1, 4} {
		o.Acknowledge(ack)
		runnertest.Eventually(t, "the output is full", func() bool { return o.Position() == ack+4 })
	}
	r := o.attach(0)
	if r.at != 4 {
		t.Errorf("a reader starts at %d", r.at)
	}
	r.Detach()
	select {
	case <-written:
		t.Error("unacknowledged output was dropped")
	default:
	}
	o.Acknowledge(5)
	<-written
	o.Close()
	if got, first := readAll(t, o, 0); got != "6789" || first != 5 {
		t.Errorf("got %q at %d", got, first)
	}
}

func TestOnlyOffsetsOfTheOutputAreAcknowledged(t *testing.T) {
	o := NewKeptOutput(8)
	o.Write([]byte("1234"))
	for _, x := range []struct{ offset, want int64 }{{-1, 0}, {5, 0}, {1 << 62, 0}, {-1 << 63, 0}, {3, 3}, {2, 3}, {0, 3}, {4, 4}} {
		if o.Acknowledge(x.offset); o.Acknowledged() != x.want {
			t.Errorf("%d: %d is acknowledged", x.offset, o.Acknowledged())
		}
	}
}

func TestAnExtendedOutputKeepsItsBytesAndTakesMore(t *testing.T) {
	for _, written := range []string{"", "12", "1234", "123456", "1234567", "12345678"} {
		for extra := 0; extra < 6; extra++ {
			o := NewKeptOutput(4)
			ack := int64(len(written)) - 4
			for at := range written {
				o.Acknowledge(int64(at) - 3)
				o.Write([]byte(written[at : at+1]))
			}
			o.Extend(5)
			o.Write([]byte("abcdef"[:extra]))
			o.Close()
			if ack < 0 {
				ack = 0
			}
			if got, first := readAll(t, o, 0); got != written[ack:]+"abcdef"[:extra] || first != ack {
				t.Errorf("%q and %d more: %q at %d", written, extra, got, first)
			}
		}
	}
}

func TestAStuckReaderOfAKeptOutputIsCutAndNothingIsLost(t *testing.T) {
	o := NewKeptOutput(8)
	o.readerTimeout = time.Second // the other reader needs less, also on a busy machine
	stuck, waiting := o.attach(0), o.attach(0)
	cut := make(chan struct{})
	stuck.onCut = func() { close(cut) }
	buf := make([]byte, 8)
	o.Write([]byte("abcd"))
	if _, n, err := stuck.Next(buf[:1], NoLimit); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	go func() {
		o.Write([]byte("efghijkl"))
		o.Close()
	}()
	for read := 0; read < 8; {
		_, n, err := waiting.Next(buf, NoLimit)
		if err != nil {
			t.Fatal(err)
		}
		read += n
	}
	<-cut
	if _, _, err := stuck.Next(buf, NoLimit); wire.CodeOf(err) != wire.CodeSlowReader {
		t.Errorf("the reader got %v", err)
	}
	o.Acknowledge(4)
	if _, n, err := waiting.Next(buf, NoLimit); string(buf[:n]) != "ijkl" || err != nil {
		t.Errorf("the reader that only waits got %q, %v", buf[:n], err)
	}
	waiting.Detach()
	if got, first := readAll(t, o, 0); got != "efghijkl" || first != 4 {
		t.Errorf("got %q at %d", got, first)
	}
}

func TestACompleteAndAcknowledgedOutputUsesNoMemory(t *testing.T) {
	o := NewKeptOutput(8)
	o.Write([]byte("1234"))
	r := o.attach(0)
	o.Close()
	o.Acknowledge(4)
	buf := make([]byte, 8)
	if _, n, _ := r.Next(buf, NoLimit); string(buf[:n]) != "1234" {
		t.Errorf("a reader that was attached got %q", buf[:n])
	}
	r.Detach()
	if got, first := readAll(t, o, 0); o.ring != nil || got != "" || first != 4 {
		t.Errorf("got %q at %d, %d bytes in memory", got, first, len(o.ring))
	}
}
