package files

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

// readPages reads a list to its end and returns its items and the size of the largest page.
func readPages(c *runnertest.FileClient) (items []Entry, largest int, truncated bool) {
	c.Helper()
	for {
		m, body := c.Next()
		switch m["type"] {
		case "page":
			var page []Entry
			c.Must(json.Unmarshal(body, &page))
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
	f.Must(os.Mkdir(f.Work+"/many", 0o755))
	for i := 0; i < many; i++ {
		f.Must(os.WriteFile(fmt.Sprintf("%s/many/%06d", f.Work, i), nil, 0o644))
	}
	for _, c := range []struct {
		limit, want int
		truncated   bool
	}{{maxEntries, many, false}, {many, many, false}, {many - 1, many - 1, true}, {1, 1, true}} {
		list := f.Stream("fs.list", wire.Fields{"path": "many", "max_entries": c.limit})
		if m, _ := list.Next(); m["path"] != f.Work+"/many" {
			t.Fatalf("got %v", m)
		}
		items, largest, truncated := readPages(list)
		if len(items) != c.want || truncated != c.truncated || largest > 2*wire.PageBytes {
			t.Errorf("at most %d: got %d, truncated %v, pages of up to %d", c.limit, len(items), truncated, largest)
		}
	}
	items, _, _ := func() ([]Entry, int, bool) {
		search := f.Stream("fs.search", wire.Fields{"name": "*9", "max_matches": maxMatches})
		search.Next()
		return readPages(search)
	}()
	if len(items) != maxMatches || items[0].Path != f.Work+"/many/000009" {
		t.Errorf("found %d", len(items))
	}
}

func TestAListOfATreeIsInOrderAcrossPages(t *testing.T) {
	f := newMemoryFixture(t)
	for i := 0; i < 1000; i++ {
		f.Must(os.MkdirAll(fmt.Sprintf("%s/%04d/sub", f.Work, i), 0o755))
	}
	list := f.Stream("fs.list", wire.Fields{"path": ".", "recursive": true})
	list.Next()
	items, _, _ := readPages(list)
	for i, e := range items {
		want := fmt.Sprintf("%s/%04d", f.Work, i/2)
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
	long := func(i int) string { return fmt.Sprintf("%s/%0250d", f.Work, i) }
	for i := 0; i < 10_000; i++ {
		f.Must(os.WriteFile(long(i), nil, 0o644))
	}
	reply, body := f.OK("fs.list", nil, nil)
	if reply["truncated"] != true || len(body) > wire.OnePageBytes+1 || len(body) < wire.OnePageBytes-1024 {
		t.Errorf("%d bytes, %v", len(body), reply)
	}
}

func TestAListThatNobodyReadsWaitsAndEndsWithItsClient(t *testing.T) {
	f := newMemoryFixture(t)
	for i := 0; i < 20_000; i++ {
		f.Must(os.WriteFile(fmt.Sprintf("%s/%d", f.Work, i), nil, 0o644))
	}
	list := f.Stream("fs.list", wire.Fields{"max_entries": 20_000})
	list.Next()
	list.Conn.Close() // the fixture waits for the end of the stream
}
