package launch

import (
	"fmt"
	"os"
	"syscall"
)

// A boundedLog keeps the beginning and the end of what a machine prints. A machine that prints for ever fills no disk.
type boundedLog struct {
	file  *os.File
	limit int
	// written of the beginning; after limit bytes the rest goes to the tail, which is a ring.
	written, dropped int
	tail             []byte
	next             int
}

func openBoundedLog(path string, limit int) (*boundedLog, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	return &boundedLog{file: file, limit: limit}, nil
}

// copy reads to the end of the output. A full disk loses the log and nothing else.
func (l *boundedLog) copy(output *os.File) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := output.Read(buffer)
		l.add(buffer[:n])
		if err != nil {
			return
		}
	}
}

func (l *boundedLog) add(data []byte) {
	if room := l.limit - l.written; room > 0 {
		head := data
		if len(head) > room {
			head = head[:room]
		}
		l.file.Write(head)
		l.written += len(head)
		data = data[len(head):]
	}
	for len(data) > 0 {
		if len(l.tail) < l.limit {
			n := l.limit - len(l.tail)
			if n > len(data) {
				n = len(data)
			}
			l.tail = append(l.tail, data[:n]...)
			data = data[n:]
			continue
		}
		n := copy(l.tail[l.next:], data)
		l.next = (l.next + n) % l.limit
		l.dropped += n
		data = data[n:]
	}
}

// end writes what was kept of the end, and a last line.
func (l *boundedLog) end(line string) {
	if l.dropped > 0 {
		fmt.Fprintf(l.file, "\n[%d bytes left out]\n", l.dropped)
	}
	l.file.Write(l.tail[l.next:])
	l.file.Write(l.tail[:l.next])
	fmt.Fprintf(l.file, "\n%s\n", line)
	l.file.Close()
}
