package terminal

import (
	"bytes"
	"regexp"
)

// A span is a part of some bytes.
type span struct{ From, To int }

const (
	enq = 0x05
	bel = 0x07
	can = 0x18
	sub = 0x1a
	esc = 0x1b
)

// The start of what a terminal shows may be the end of a sequence or of a line; so far its end is looked for.
const maxCutBytes = 256

// Control sequences that a terminal answers, by what follows the introducer.
var (
	csiQueries = regexp.MustCompile(`^(?:` +
		`[<=?]?[0-9;:]*n|` + // DSR; with > it sets a mode
		`[<=>?]?[0-9;:]*c|` + // DA
		`[<=>?]?[0-9;:]*\$p|` + // DECRQM
		`>[0-9;:]*q|` + // XTVERSION
		`(?:1[134568]|19|2[01])[0-9;:]*t|` + // reports of the window
		`\?[0-9;:]*[uSm]|` + // the keyboard's protocol and modifiers, graphics
		`\?2048h|` + // reports of the size, of which the first comes at once
		`[0-9;:]*x|` + // DECREQTPARM
		`[0-9;:]*(?:\*y|\$[uw]|&u|'\||#[RS|])` + // checksums, states, the locator, colours
		`)$`)
	oscQueries = regexp.MustCompile(`(?s)(?:[;=]\?(?:;|$)|^6[01](?:;|$)|^1337;Report)`)
	dcsQueries = regexp.MustCompile(`^(?:[0-9;:]*[+$]q|tmux;)`) // XTGETTCAP, DECRQSS, and whatever is passed through tmux
)

// WithoutQueries gives the parts of kept terminal output that are shown to a terminal again: all but what makes the
// terminal answer, because the program that asked has its answer, and the shell would take a second one for typed keys.
// If isCut, kept starts in the middle of the output. A sequence that kept ends in the middle of stays: its rest is yet to come.
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

// cutSequence is how many bytes at the start may belong to a sequence whose start is missing.
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
			return i // no longer within a character
		}
	}
	return len(kept)
}

// sequenceAt is the length of what text starts with, a plain byte or a control sequence, and whether it is shown again.
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
		introducer = text[1] - 0x40 // the same of one character
	default:
		return 1, true
	}
	switch {
	case introducer == 'Z':
		return 2, false
	case introducer < ' ':
		return 1, false // a control within a sequence, which no program sends
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
			return i, false // broken off
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
			return i, false // broken off
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
	return introducer == '_' // the answers of kitty's graphics
}
