package main

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

// pages reads a list to its end and gives its items and the largest page.
func (c *fileClient) pages() (items []entry, largest int, truncated bool) {
	c.Helper()
	for {
		m, body := c.next()
		switch m["type"] {
		case "page":
			var page []entry
			c.must(json.Unmarshal(body, &page))
			items = append(items, page...)
			largest = max(largest, len(body))
		case "done":
			return items, largest, m["truncated"].(bool)
		default:
			c.Fatalf("got %v", m)
		}
	}
}

func max(a, b int) int {
	if a > b {
		return a
	}
	return b
}

func TestALongListComesInPagesOfBoundedSize(t *testing.T) {
	const many = 200_000
	f := newMemoryFixture(t)
	f.must(os.Mkdir(f.work+"/many", 0o755))
	for i := 0; i < many; i++ {
		f.must(os.WriteFile(fmt.Sprintf("%s/many/%06d", f.work, i), nil, 0o644))
	}
	for _, c := range []struct {
		limit, want int
		truncated   bool
	}{{maxEntries, many, false}, {many, many, false}, {many - 1, many - 1, true}, {1, 1, true}} {
		list := f.stream("fs.list", fields{"path": "many", "max_entries": c.limit})
		if m, _ := list.next(); m["path"] != f.work+"/many" {
			t.Fatalf("got %v", m)
		}
		items, largest, truncated := list.pages()
		if len(items) != c.want || truncated != c.truncated || largest > 2*pageBytes {
			t.Errorf("at most %d: got %d, truncated %v, pages of up to %d", c.limit, len(items), truncated, largest)
		}
	}
	items, _, _ := func() ([]entry, int, bool) {
		search := f.stream("fs.search", fields{"name": "*9", "max_matches": maxMatches})
		search.next()
		return search.pages()
	}()
	if len(items) != maxMatches || items[0].Path != f.work+"/many/000009" {
		t.Errorf("found %d", len(items))
	}
}

func TestAListOfATreeIsInOrderAcrossPages(t *testing.T) {
	f := newMemoryFixture(t)
	for i := 0; i < 1000; i++ {
		f.must(os.MkdirAll(fmt.Sprintf("%s/%04d/sub", f.work, i), 0o755))
	}
	list := f.stream("fs.list", fields{"path": ".", "recursive": true})
	list.next()
	items, _, _ := list.pages()
	for i, e := range items {
		want := fmt.Sprintf("%s/%04d", f.work, i/2)
		if i%2 == 1 {
			want += "/sub"
		}
		if e.Path != want {
			t.Fatalf("item %d is %s", i, e.Path)
		}
	}
	if len(items) != 2000 {
		t.Errorf("%d items", len(items))
	}
}

func TestAListWithoutAStreamIsOnePage(t *testing.T) {
	f := newMemoryFixture(t)
	long := func(i int) string { return fmt.Sprintf("%s/%0250d", f.work, i) }
	for i := 0; i < 10_000; i++ {
		f.must(os.WriteFile(long(i), nil, 0o644))
	}
	reply, body := f.ok("fs.list", nil, nil)
	if reply["truncated"] != true || len(body) > onePageBytes+1 || len(body) < onePageBytes-1024 {
		t.Errorf("%d bytes, %v", len(body), reply)
	}
}

func TestAListThatNobodyReadsWaitsAndEndsWithItsClient(t *testing.T) {
	f := newMemoryFixture(t)
	for i := 0; i < 20_000; i++ {
		f.must(os.WriteFile(fmt.Sprintf("%s/%d", f.work, i), nil, 0o644))
	}
	list := f.stream("fs.list", fields{"max_entries": 20_000})
	list.next()
	list.conn.Close() // the fixture waits for the end of the stream
}
