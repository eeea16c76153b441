package mux

import (
	"bufio"
	"errors"
	"hash/crc32"
	"io"
	"strings"
	"sync"
	"testing"
)

func TestNothingOfADamagedPayloadIsPassedOn(t *testing.T) {
	m := &session{w: io.Discard}
	s := &stream{m: m, number: 1, window: InitialCredit, changed: sync.NewCond(&m.mu)}
	err := s.receive(3, crc32.ChecksumIEEE([]byte("abc")), bufio.NewReader(strings.NewReader("ab\x00")))
	if !errors.Is(err, errDamaged) || len(s.in) != 0 {
		t.Errorf("passed on %q, %v", s.in, err)
	}
}
