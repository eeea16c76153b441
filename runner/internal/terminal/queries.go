package terminal

import (
	"bytes"
	"regexp"
)

// A span is a range of bytes.
type span struct{ From, To int }

const (
	enq = 0x05
	bel = 0x07
	can = 0x18
	sub = 0x1a
	esc = 0x1b
)

// Output that was cut may start inside a control sequence or a line, whose end is searched within this many bytes.
const maxCutBytes = 256

// Control sequences that a terminal answers, matched after their introducer.
var (
	csiQueries = regexp.MustCompile(`^(?:` +
		`[<=?]?[0-9;:]*n|` + // DSR; with > it sets a mode
		`[<=>?]?[0-9;:]*c|` + // DA
		`[<=>?]?[0-9;:]*\$p|` + // DECRQM
		`>[0-9;:]*q|` + // XTVERSION
		`(?:1[134568]|19|2[01])[0-9;:]*t|` + // window reports
		`\?[0-9;:]*[uSm]|` + // keyboard protocol and modifiers, graphics
		`\?2048h|` + // size reports, of which the first is sent at once
		`[0-9;:]*x|` + // DECREQTPARM
		`[0-9;:]*(?:\*y|\$[uw]|&u|'\||#[RS|])` + // checksums, states, locator, colours
		`)$`)
	oscQueries = regexp.MustCompile(`(?s)(?:[;=]\?(?:;|$)|^6[01](?:;|$)|^1337;Report)`)
	dcsQueries = regexp.MustCompile(`^(?:[0-9;:]*[+$]q|tmux;)`) // XTGETTCAP, DECRQSS, and anything passed through tmux
)

// WithoutQueries returns the parts of kept terminal output that may be shown to a terminal again: all but the queries
// that a terminal answers. The program that sent a query has its answer already, and the shell would take a second
// one for typed keys. With isCut, kept starts in the middle of the output. An incomplete sequence at the end stays,
// because its rest follows.
func WithoutQueries(kept []byte, isCut bool) (parts []span) {
	from, at := 0, 0
	if isCut {
		at = cutSequence(kept)
		from = at
	}
	for at < len(kept) {
		length, isShown := sequenceAt(kept[at:])
		if !isShown {
			if at > from {
				parts = append(parts, span{from, at})
			}
			from = at + length
		}
		at += length
	}
	if from < len(kept) {
		parts = append(parts, span{from, len(kept)})
	}
	return parts
}

// cutSequence counts the bytes at the start that may belong to a sequence whose start is missing.
func cutSequence(kept []byte) int {
	for i, b := range kept {
		if i == maxCutBytes {
			break
		}
		switch {
		case b == esc && i+1 < len(kept) && kept[i+1] == '\\':
			return i + 2
		case b == bel:
			return i + 1
		case b == esc || b == '\n' || b == '\r':
			return i
		}
	}
	for i, b := range kept {
		if b < 0x80 || b >= 0xc0 || i == 3 {
			return i // not within a UTF-8 character any more
		}
	}
	return len(kept)
}

// sequenceAt returns the length of the plain byte or control sequence that text starts with, and whether it is shown
// again.
func sequenceAt(text []byte) (length int, isShown bool) {
	introducer, start := byte(0), 2
	switch {
	case text[0] == enq:
		return 1, false
	case len(text) == 1:
		return 1, true
	case text[0] == esc:
		introducer = text[1]
	case text[0] == 0xc2 && text[1] >= 0x90 && text[1] <= 0x9f:
		introducer = text[1] - 0x40 // the 8-bit form of the introducer
	default:
		return 1, true
	}
	switch {
	case introducer == 'Z':
		return 2, false
	case introducer < ' ':
		return 1, false // a control character within a sequence, which no program sends
	case introducer == '[':
		return controlAt(text, start)
	case introducer == ']' || introducer == 'P' || introducer == '_' || introducer == '^' || introducer == 'X':
		return stringAt(text, start, introducer)
	}
	return 2, true
}

// controlAt is sequenceAt for a CSI.
func controlAt(text []byte, start int) (int, bool) {
	for i := start; i < len(text); i++ {
		switch b := text[i]; {
		case b >= 0x40 && b <= 0x7e:
			return i + 1, !csiQueries.Match(text[start : i+1])
		case b < ' ' || b > 0x7e:
			return i, false // incomplete
		}
	}
	return len(text), true
}

// stringAt is sequenceAt for a sequence that contains a string.
func stringAt(text []byte, start int, introducer byte) (int, bool) {
	for i := start; i < len(text); i++ {
		end := 0
		switch b := text[i]; {
		case b == bel && introducer == ']':
			end = i + 1
		case b == esc && i+1 == len(text), b == 0xc2 && i+1 == len(text):
			return len(text), true
		case b == esc && text[i+1] == '\\', b == 0xc2 && text[i+1] == 0x9c:
			end = i + 2
		case b == can || b == sub:
			return i + 1, false
		case b == esc:
			return i, false // incomplete
		}
		if end > 0 {
			return end, !asks(introducer, text[start:i])
		}
	}
	return len(text), true
}

func asks(introducer byte, content []byte) bool {
	switch {
	case bytes.IndexByte(content, enq) >= 0:
		return true
	case introducer == ']':
		return oscQueries.Match(content)
	case introducer == 'P':
		return dcsQueries.Match(content)
	}
	return introducer == '_' // kitty graphics are answered
}
