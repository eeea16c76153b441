// Package dns answers the DNS queries of the programs of a sandbox. It asks no other server.
package dns

import (
	"encoding/binary"
	"net/netip"
	"strings"
)

const (
	headerBytes = 12
	maxWireName = 255 // 253 characters as text

	flagResponse           = 1 << 15
	flagOpcode             = 0xf << 11
	flagRecursionDesired   = 1 << 8
	flagRecursionAvailable = 1 << 7
	flagCheckingDisabled   = 1 << 4

	typeA    = 1
	typePTR  = 12
	typeAAAA = 28
	typeOPT  = 41
	classIN  = 1

	ownPayload = 1232 // the size of messages that the answers to EDNS queries announce
	// ttlSeconds is short, because the next generation of the policy may give another answer.
	ttlSeconds = 1
)

// A status is the response code of an answer.
type status uint16

const (
	noError        status = 0
	formatError    status = 1
	serverFailure  status = 2
	nameError      status = 3
	notImplemented status = 4
	badVersion     status = 16 // of EDNS
)

// A query is the one question of a message.
type query struct {
	id       uint16
	flags    uint16 // those that the answer repeats
	question []byte // as it was sent, because some clients compare the case of its letters
	name     string // in lower case, without a dot at its end
	kind     uint16
	class    uint16
	// isHostName: the name has only letters, digits, - and _ between its dots. The labels of another name cannot be told from its text.
	isHostName bool
	hasEDNS    bool
}

// parse reads a query. It returns nil for what must not be answered. A status other than noError is the answer.
func parse(packet []byte) (*query, status) {
	if len(packet) < headerBytes {
		return nil, formatError
	}
	flags := binary.BigEndian.Uint16(packet[2:])
	if flags&flagResponse != 0 {
		return nil, formatError // answering answers could go on for ever
	}
	q := &query{id: binary.BigEndian.Uint16(packet), flags: flags & (flagOpcode | flagRecursionDesired | flagCheckingDisabled)}
	if flags&flagOpcode != 0 {
		return q, notImplemented
	}
	var counts [4]uint16 // questions, answers, authorities, additional records
	for i := range counts {
		counts[i] = binary.BigEndian.Uint16(packet[4+2*i:])
	}
	if counts[0] != 1 || counts[1] != 0 || counts[2] != 0 || counts[3] > 1 {
		return q, formatError
	}
	rest, ok := q.readQuestion(packet[headerBytes:])
	if !ok {
		return q, formatError
	}
	if counts[3] == 0 {
		if len(rest) > 0 {
			return q, formatError
		}
		return q, noError
	}
	return q, q.readOptions(rest)
}

// readQuestion reads the question at the start of data and returns what follows it.
func (q *query) readQuestion(data []byte) (rest []byte, ok bool) {
	var name strings.Builder
	q.isHostName = true
	end := 0
	for {
		if end >= len(data) || end >= maxWireName {
			return nil, false
		}
		length := int(data[end])
		end++
		if length == 0 {
			break
		}
		// A length above 63 is a compression pointer. A question has nothing before it that one could point to.
		if length > 63 || end+length > len(data) {
			return nil, false
		}
		if name.Len() > 0 {
			name.WriteByte('.')
		}
		for _, c := range data[end : end+length] {
			q.isHostName = q.isHostName && isHostByte(c)
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			name.WriteByte(c)
		}
		end += length
	}
	if len(data) < end+4 {
		return nil, false
	}
	q.name = name.String()
	q.kind, q.class = binary.BigEndian.Uint16(data[end:]), binary.BigEndian.Uint16(data[end+2:])
	end += 4
	q.question = append([]byte(nil), data[:end]...)
	return data[end:], true
}

func isHostByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// readOptions reads the additional record, which must be the OPT record of EDNS.
func (q *query) readOptions(data []byte) status {
	const fixed = 11 // root name, type, payload size, extended code, version, flags, length
	if len(data) < fixed || data[0] != 0 || binary.BigEndian.Uint16(data[1:]) != typeOPT {
		return formatError
	}
	if len(data) != fixed+int(binary.BigEndian.Uint16(data[9:])) {
		return formatError
	}
	q.hasEDNS = true
	if data[6] != 0 {
		return badVersion
	}
	return noError
}

// reply encodes the answer to a query. A valid address is the one record of the answer. An answer has at most 298 bytes, so it always fits a
// packet.
func (q *query) reply(code status, address netip.Addr) []byte {
	packet := make([]byte, headerBytes, headerBytes+len(q.question)+32)
	binary.BigEndian.PutUint16(packet, q.id)
	binary.BigEndian.PutUint16(packet[2:], q.flags|flagResponse|flagRecursionAvailable|uint16(code&0xf))
	if q.question != nil {
		packet[5] = 1
		packet = append(packet, q.question...)
	}
	if address.Is4() {
		packet[7] = 1
		raw := address.As4()
		packet = append(packet, 0xc0, headerBytes, 0, typeA, 0, classIN, 0, 0, 0, ttlSeconds, 0, 4)
		packet = append(packet, raw[:]...)
	}
	if q.hasEDNS {
		packet[11] = 1
		packet = append(packet, 0, 0, typeOPT, ownPayload>>8, ownPayload&0xff, byte(code>>4), 0, 0, 0, 0, 0)
	}
	return packet
}
