package terminal

import (
	"strings"
	"testing"
)

func shownAgain(kept string, isCut bool) string {
	text := ""
	for _, part := range WithoutQueries([]byte(kept), isCut) {
		text += kept[part.From:part.To]
	}
	return text
}

func TestWhatATerminalAnswersIsNotShownAgain(t *testing.T) {
	for name, query := range map[string]string{
		"ENQ": "\x05", "DECID": "\x1bZ", "DA1": "\x1b[c", "DA1 with 0": "\x1b[0c", "DA2": "\x1b[>c", "DA3": "\x1b[=0c",
		"DSR": "\x1b[5n", "cursor": "\x1b[6n", "DECXCPR": "\x1b[?6n", "colour scheme": "\x1b[?996n", "DECRQM": "\x1b[?2026$p", "ANSI DECRQM": "\x1b[4$p",
		"XTVERSION": "\x1b[>q", "XTVERSION with 0": "\x1b[>0q", "window": "\x1b[14t", "pixels": "\x1b[14;2t", "cells": "\x1b[18t", "title": "\x1b[21t",
		"keyboard": "\x1b[?u", "modifiers": "\x1b[?4m", "graphics": "\x1b[?2;1;0S", "size reports": "\x1b[?2048h", "DECREQTPARM": "\x1b[0x",
		"checksum": "\x1b[1;1;1;1;2;2*y", "state": "\x1b[1$w", "foreground": "\x1b]10;?\x07", "background": "\x1b]11;?\x1b\\", "cursor colour": "\x1b]12;?\x07",
		"palette": "\x1b]4;1;?\x07", "palette twice": "\x1b]4;1;?;2;?\x1b\\", "clipboard": "\x1b]52;c;?\x07", "kitty colours": "\x1b]21;foreground=?\x1b\\",
		"XTGETTCAP": "\x1bP+q544e\x1b\\", "DECRQSS": "\x1bP$qm\x1b\\", "kitty graphics": "\x1b_Gi=1,a=q;AAAA\x1b\\",
		"8-bit DA": "\u009bc", "8-bit OSC": "\u009d11;?\u009c", "8-bit DCS": "\u0090$qm\u009c", "8-bit DECID": "\u009a",
		"control within": "\x1b[\x05c", "ENQ in a title": "\x1b]0;a\x05b\x07", "through tmux": "\x1bPtmux;\x1b\x1b[c\x1b\\",
	} {
		got := shownAgain("before"+query+"after", false)
		// The rest of a broken sequence must not be a query itself.
		if left := strings.TrimSuffix(strings.TrimPrefix(got, "before"), "after"); left != "" && left != "c" && left != "\x1b\\" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestWhatATerminalOnlyShowsIsShownAgainUnchanged(t *testing.T) {
	for _, text := range []string{
		"plain\r\ntext\twith c, n and ?", "äöü € 🙂 \u00a0", "\x1b[31mred\x1b[0m", "\x1b[?1049h\x1b[2J\x1b[H", "\x1b[?25l\x1b[?2004h\x1b[?1004h", "\x1b[2 q",
		"\x1b[>4;2m", "\x1b[>4n", "\x1b[>1u", "\x1b[<u", "\x1b[22;0;0t\x1b[23t", "\x1b[8;24;80t", "\x1b]0;what is c?\x07", "\x1b]8;;http://a/?b\x1b\\link\x1b]8;;\x1b\\",
		"\x1b]11;#ffffff\x07", "\x1b]52;c;aGVsbG8=\x07", "\x1bPq#0;2;0;0;0~~\x1b\\", "\x1b(B\x1b)0\x1b=\x1b>\x1b7\x1b8\x1bM", "\x1b[3S\x1b[1;5r", "\x1b[!p",
	} {
		if got := shownAgain(text, false); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestWhatIsCutAtEitherEnd(t *testing.T) {
	for _, c := range []struct{ kept, want string }{
		{"?1049h\x1b[mtext", "\x1b[mtext"}, {"1;?\x07text", "text"}, {"$qm\x1b\\text", "text"}, {"half a line\r\nnext", "\r\nnext"},
		{"\xa4" + strings.Repeat("x", 300), strings.Repeat("x", 300)}, {strings.Repeat("x", 300) + "\n", strings.Repeat("x", 300) + "\n"},
		{"\ntext\x1b[", "\ntext\x1b["}, {"\ntext\x1b]11;", "\ntext\x1b]11;"}, {"\ntext\x1b", "\ntext\x1b"}, {"", ""}, {"\x1b", "\x1b"}, {"\x07", ""},
	} {
		if got := shownAgain(c.kept, true); got != c.want {
			t.Errorf("%q became %q", c.kept, got)
		}
	}
}

// FuzzWithoutQueries: the parts that are shown again are in order and within the output.
func FuzzWithoutQueries(f *testing.F) {
	f.Add("a\x1b[\x1b[cc\x1b]11;?\x07")
	f.Fuzz(func(t *testing.T, kept string) {
		last := 0
		for _, part := range WithoutQueries([]byte(kept), len(kept)%2 == 0) {
			if part.From < last || part.To <= part.From || part.To > len(kept) {
				t.Fatalf("%q: %v", kept, part)
			}
			last = part.To
		}
	})
}
