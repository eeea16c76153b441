package files

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"sandglass/runner/internal/wire"
)

func TestSearch(t *testing.T) {
	f := newFileFixture(t)
	f.OK("write", wire.Fields{"path": "a.py"}, []byte("import os\nprint('Hello')\n"))
	f.OK("write", wire.Fields{"path": "sub/b.py"}, []byte("no newline: hello"))
	f.OK("write", wire.Fields{"path": "sub/c.txt"}, []byte("hello.world\r\nhelloXworld\r\n"))
	f.OK("write", wire.Fields{"path": "binary.py"}, []byte("hello\x00hello"))
	f.OK("write", wire.Fields{"path": "long.txt"}, []byte(strings.Repeat("x", 300_000)+"needle"+strings.Repeat("y", 3_000_000)+"\nneedle\n"))
	f.Must(os.Symlink(f.Outside, f.Work+"/out"))
	find := func(args wire.Fields) string {
		t.Helper()
		reply, body := f.OK("fs.search", args, nil)
		var found []match
		f.Must(json.Unmarshal(body, &found))
		text := []string{}
		for _, m := range found {
			item := strings.TrimPrefix(m.Path, f.Work+"/")
			if m.Line > 0 {
				item += ":" + string(rune('0'+m.Line)) + ":" + m.Text
			}
			text = append(text, item)
		}
		if reply["truncated"] == true {
			text = append(text, "…")
		}
		return strings.Join(text, " ")
	}
	for _, c := range []struct {
		args wire.Fields
		want string
	}{
		{wire.Fields{"name": "*.py"}, "a.py binary.py sub/b.py"},
		{wire.Fields{"name": "su?"}, "sub"},
		{wire.Fields{"text": "hello"}, "sub/b.py:1:no newline: hello sub/c.txt:1:hello.world sub/c.txt:2:helloXworld"},
		{wire.Fields{"text": "hello", "ignore_case": true, "name": "*.py"}, "a.py:2:print('Hello') sub/b.py:1:no newline: hello"},
		{wire.Fields{"text": "hello.world", "path": "sub"}, "sub/c.txt:1:hello.world"},
		{wire.Fields{"text": "hello.world$", "regex": true}, "sub/c.txt:1:hello.world sub/c.txt:2:helloXworld"},
		{wire.Fields{"text": "hello", "max_matches": 2}, "sub/b.py:1:no newline: hello sub/c.txt:1:hello.world …"},
		{wire.Fields{"text": "never to be read"}, ""},
	} {
		if got := find(c.args); got != c.want {
			t.Errorf("%v: got %q, want %q", c.args, got, c.want)
		}
	}
	if got := find(wire.Fields{"text": "needle"}); len(got) > 2*shownLine || strings.Count(got, "long.txt:") != 2 {
		t.Errorf("got %q", got)
	}
	f.Fails(wire.CodeInvalidRequest, "fs.search", wire.Fields{"text": "(", "regex": true}, nil)
	f.Fails(wire.CodeInvalidRequest, "fs.search", wire.Fields{"name": "["}, nil)
	f.Fails(wire.CodeInvalidRequest, "fs.search", wire.Fields{}, nil)
}

func TestASearchEndsWithItsClient(t *testing.T) {
	f := newFileFixture(t)
	f.OK("write", wire.Fields{"path": "a"}, []byte("hello"))
	gone := make(chan struct{})
	close(gone)
	raw, _ := json.Marshal(wire.Fields{"text": "hello"})
	reply, body, err := f.Handlers["fs.search"](&wire.Request{Kind: "fs.search", Raw: raw, Gone: gone})
	if err != nil || string(body) != "[]" || reply["truncated"] != true {
		t.Errorf("%v, %s, %v", reply, body, err)
	}
}
