package main

import (
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

const renameExchange = 2

// While requests run, "swap" is a directory one moment and a link to the outside the next. Whatever
// the requests answer, nothing outside is read or changed.
func TestASwappedDirectoryLeadsNowhere(t *testing.T) { bothWays(t, swapADirectory) }

func swapADirectory(t *testing.T) {
	f := newMemoryFixture(t)
	f.must(os.Chmod(f.outside, 0o777))
	f.must(os.Mkdir(f.work+"/real", 0o755))
	f.must(os.Mkdir(f.work+"/keep", 0o755))
	f.put(f.work+"/real/secret", "inside")
	f.must(os.Symlink(f.outside, f.work+"/evil"))
	f.must(os.Rename(f.work+"/real", f.work+"/swap"))
	work, err := syscall.Open(f.work, syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	f.must(err)
	defer syscall.Close(work)

	stop := make(chan struct{})
	var swaps int64
	var racer sync.WaitGroup
	racer.Add(1)
	go func() {
		defer racer.Done()
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := renameAt(work, "swap", work, "evil", renameExchange); err != nil {
				t.Error(err)
				return
			}
			atomic.AddInt64(&swaps, 1)
		}
	}()

	rounds := 2500 // of eight calls each
	if testing.Short() {
		rounds = 200
	}
	f.put(f.work+"/keep/mine", "mine")
	reads, writes := map[string]int{}, map[string]int{}
	tarball := tarOf(t, file("swap/unpacked", []byte("x")))
	for i := 0; i < rounds; i++ {
		_, body, err := f.call("read", fields{"path": "swap/secret"}, nil)
		if err == nil && string(body) != "inside" {
			t.Fatalf("read %q", body)
		}
		reads[codeOf(err)]++
		_, _, err = f.call("write", fields{"path": "swap/written"}, []byte("x"))
		writes[codeOf(err)]++
		f.call("fs.mkdir", fields{"path": "swap/made"}, nil)
		f.call("fs.move", fields{"from": "keep/mine", "to": "swap/mine", "overwrite": true}, nil)
		f.call("fs.move", fields{"from": "swap/mine", "to": "keep/mine", "overwrite": true}, nil)
		f.call("fs.remove", fields{"path": "swap/made", "recursive": true}, nil)
		if _, list, err := f.call("fs.search", fields{"path": ".", "text": "outside"}, nil); err == nil && string(list) != "[]" {
			t.Fatalf("search found %s", list)
		}
		if i%200 == 0 {
			f.stream("archive.put", fields{"path": "."}).upload(tarball, 4096)
			f.untouched()
		}
	}
	// Emptying the whole workspace while the link comes and goes takes the link, not what it points to.
	for i := 0; i < 100; i++ {
		f.call("fs.remove", fields{"path": "keep/tree", "recursive": true}, nil)
		f.call("write", fields{"path": "keep/tree/swap/x"}, []byte("x"))
	}
	close(stop)
	racer.Wait()
	f.untouched()
	for _, seen := range []map[string]int{reads, writes} {
		if seen["no error"] == 0 || seen[codePathOutside] == 0 {
			t.Errorf("the race was not run: reads %v, writes %v, swaps %d", reads, writes, atomic.LoadInt64(&swaps))
		}
	}
	t.Logf("%d swaps, reads %v, writes %v", atomic.LoadInt64(&swaps), reads, writes)
}

// Removing a tree in which a directory keeps turning into a link to the outside.
func TestARecursiveRemoveIsNotLedAway(t *testing.T) { bothWays(t, removeWhileSwapped) }

func removeWhileSwapped(t *testing.T) {
	f := newMemoryFixture(t)
	f.must(os.Chmod(f.outside, 0o777))
	rounds := 1500
	if testing.Short() {
		rounds = 100
	}
	for i := 0; i < rounds; i++ {
		tree := f.work + "/tree"
		f.must(os.MkdirAll(tree+"/a/b", 0o755))
		f.must(os.MkdirAll(tree+"/z", 0o755))
		f.must(os.WriteFile(tree+"/a/b/file", nil, 0o644))
		done := make(chan struct{})
		go func() {
			defer close(done)
			for j := 0; j < 20; j++ {
				os.Rename(tree+"/a", tree+"/away")
				os.Symlink(f.outside, tree+"/a")
				os.Remove(tree + "/a")
				os.Rename(tree+"/away", tree+"/a")
			}
		}()
		f.call("fs.remove", fields{"path": "tree", "recursive": true}, nil)
		<-done
		f.untouched()
		f.must(os.RemoveAll(tree))
	}
}
