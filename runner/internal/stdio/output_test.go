package stdio

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

func TestAnOutputKeepsItsRecentBytes(t *testing.T) {
	for _, c := range []struct {
		writes []string
		from   int64
		want   string
		offset int64
	}{
		{[]string{"abc"}, 0, "abc", 0}, {[]string{"abc"}, 1, "bc", 1}, {[]string{"abc"}, 9, "", 3},
		{[]string{"12345678"}, 0, "12345678", 0}, {[]string{"1234", "56789"}, 0, "23456789", 1},
		{[]string{strings.Repeat("x", 100) + "abcdefgh"}, 0, "abcdefgh", 100}, {[]string{"123456", "7890", "abc"}, 7, "890abc", 7},
	} {
		o := NewOutput(8, false)
		for _, w := range c.writes {
			o.Write([]byte(w))
		}
		o.Close()
		r := o.attach(c.from)
		var got bytes.Buffer
		first := int64(-1)
		buf := make([]byte, 3)
		for {
			offset, n, err := r.Next(buf, NoLimit)
			if first < 0 {
				first = offset
			}
			if errors.Is(err, io.EOF) {
				break
			}
			got.Write(buf[:n])
		}
		if got.String() != c.want || first != c.offset {
			t.Errorf("%v from %d: %q at %d", c.writes, c.from, got.String(), first)
		}
	}
}

func TestAWriterWaitsForItsReaderAndCutsAStuckOne(t *testing.T) {
	o := NewOutput(4, false)
	o.readerTimeout = 50 * time.Millisecond
	stuck := o.attach(0)
	cut := make(chan struct{})
	stuck.onCut = func() { close(cut) }
	started := time.Now()
	o.Write([]byte("12345678"))
	<-cut
	if time.Since(started) < o.readerTimeout {
		t.Error("it was not waited for")
	}
	if _, _, err := stuck.Next(make([]byte, 4), NoLimit); wire.CodeOf(err) != wire.CodeSlowReader {
		t.Errorf("the reader got %v", err)
	}
}

func TestASlowButLivingReaderIsNotCut(t *testing.T) {
	o := NewOutput(4, false)
	o.readerTimeout = 3 * time.Second
	r := o.attach(0)
	go func() {
		o.Write([]byte(strings.Repeat("x", 200)))
		o.Close()
	}()
	total := 0
	for {
		time.Sleep(20 * time.Millisecond) // being slow is what is tested
		_, n, err := r.Next(make([]byte, 1), NoLimit)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	if total != 200 {
		t.Errorf("%d bytes arrived", total)
	}
}

func TestHeldOutputWaitsForTheFirstReader(t *testing.T) {
	o := NewOutput(4, true)
	written := make(chan struct{})
	go func() {
		o.Write([]byte("123456"))
		o.Close()
		close(written)
	}()
	runnertest.Eventually(t, "the output is full", func() bool { return o.Position() == 4 })
	select {
	case <-written:
		t.Error("output was dropped")
	default:
	}
	r := o.attach(0)
	got := make([]byte, 4)
	if _, n, err := r.Next(got, NoLimit); err != nil || string(got[:n]) != "1234" {
		t.Errorf("got %q, %v", got[:n], err)
	}
	<-written
}

func TestACaptureKeepsBothEnds(t *testing.T) {
	whole := "0123456789abcdefghij"
	for max := 0; max <= len(whole)+1; max++ {
		for step := 1; step <= len(whole); step++ {
			c := NewCapture(max)
			for i := 0; i < len(whole); i += step {
				c.Write([]byte(whole[i:min(i+step, len(whole))]))
			}
			want := whole
			if max < len(whole) {
				want = whole[:max-max/2] + whole[len(whole)-max/2:]
			}
			if got, truncated := c.Bytes(); string(got) != want || truncated != (max < len(whole)) {
				t.Fatalf("max %d in steps of %d: %q, %v", max, step, got, truncated)
			}
		}
	}
}
