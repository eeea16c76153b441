package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

func TestSearch(t *testing.T) {
	f := newFileFixture(t)
	f.ok("write", fields{"path": "a.py"}, []byte("import os\nprint('Hello')\n"))
	f.ok("write", fields{"path": "sub/b.py"}, []byte("no newline: hello"))
	f.ok("write", fields{"path": "sub/c.txt"}, []byte("hello.world\r\nhelloXworld\r\n"))
	f.ok("write", fields{"path": "binary.py"}, []byte("hello\x00hello"))
	f.ok("write", fields{"path": "long.txt"}, []byte(strings.Repeat("x", 300_000)+"needle"+strings.Repeat("y", 3_000_000)+"\nneedle\n"))
	f.must(os.Symlink(f.outside, f.work+"/out"))
	find := func(args fields) string {
		t.Helper()
		reply, body := f.ok("fs.search", args, nil)
		var found []match
		f.must(json.Unmarshal(body, &found))
		text := []string{}
		for _, m := range found {
			item := strings.TrimPrefix(m.Path, f.work+"/")
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
		args fields
		want string
	}{
		{fields{"name": "*.py"}, "a.py binary.py sub/b.py"},
		{fields{"name": "su?"}, "sub"},
		{fields{"text": "hello"}, "sub/b.py:1:no newline: hello sub/c.txt:1:hello.world sub/c.txt:2:helloXworld"},
		{fields{"text": "hello", "ignore_case": true, "name": "*.py"}, "a.py:2:print('Hello') sub/b.py:1:no newline: hello"},
		{fields{"text": "hello.world", "path": "sub"}, "sub/c.txt:1:hello.world"},
		{fields{"text": "hello.world$", "regex": true}, "sub/c.txt:1:hello.world sub/c.txt:2:helloXworld"},
		{fields{"text": "hello", "max_matches": 2}, "sub/b.py:1:no newline: hello sub/c.txt:1:hello.world …"},
		{fields{"text": "never to be read"}, ""},
	} {
		if got := find(c.args); got != c.want {
			t.Errorf("%v: got %q, want %q", c.args, got, c.want)
		}
	}
	if got := find(fields{"text": "needle"}); len(got) > 2*shownLine || strings.Count(got, "long.txt:") != 2 {
		t.Errorf("got %q", got)
	}
	f.fails(codeInvalidRequest, "fs.search", fields{"text": "(", "regex": true}, nil)
	f.fails(codeInvalidRequest, "fs.search", fields{"name": "["}, nil)
	f.fails(codeInvalidRequest, "fs.search", fields{}, nil)
}

func TestASearchEndsWithItsClient(t *testing.T) {
	f := newFileFixture(t)
	f.ok("write", fields{"path": "a"}, []byte("hello"))
	gone := make(chan struct{})
	close(gone)
	raw, _ := json.Marshal(fields{"text": "hello"})
	reply, body, err := searchFiles(f.run, &request{kind: "fs.search", raw: raw, gone: gone})
	if err != nil || string(body) != "[]" || reply["truncated"] != true {
		t.Errorf("%v, %s, %v", reply, body, err)
	}
}
