package microvm

import (
	"fmt"
	"os"
	"syscall"
)

// A bootLog is a log file with the beginning and the end of a machine's output. Its size is bounded, whatever the machine prints.
type bootLog struct {
	file  *os.File
	limit int // bytes of each half
	// The first half is written at once. After limit bytes, output goes to the tail, a ring buffer whose oldest byte is at next.
	written, dropped int
	tail             []byte
	next             int
}

func openBootLog(path string, limit int) (*bootLog, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	return &bootLog{file: file, limit: limit}, nil
}

// copy reads the output to its end. A full disk costs the log and nothing else: errors of writes are ignored.
func (l *bootLog) copy(output *os.File) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := output.Read(buffer)
		l.add(buffer[:n])
		if err != nil {
			return
		}
	}
}

func (l *bootLog) add(data []byte) {
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

// close writes the second half and a last line.
func (l *bootLog) close(line string) {
	if l.dropped > 0 {
		fmt.Fprintf(l.file, "\n[%d bytes left out]\n", l.dropped)
	}
	l.file.Write(l.tail[l.next:])
	l.file.Write(l.tail[:l.next])
	fmt.Fprintf(l.file, "\n%s\n", line)
	l.file.Close()
}
