package archive

import (
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/sys"
	"sandglass/runner/internal/wire"
)

const renameExchange = 2

// While requests run, "swap" alternates between a directory and a link to the outside. Whatever the requests answer,
// nothing outside is read or changed.
func TestASwappedDirectoryLeadsNowhere(t *testing.T) { bothWays(t, swapADirectory) }

func swapADirectory(t *testing.T) {
	f := newMemoryFixture(t)
	f.Must(os.Chmod(f.Outside, 0o777))
	f.Must(os.Mkdir(f.Work+"/real", 0o755))
	f.Must(os.Mkdir(f.Work+"/keep", 0o755))
	f.Put(f.Work+"/real/secret", "inside")
	f.Must(os.Symlink(f.Outside, f.Work+"/evil"))
	f.Must(os.Rename(f.Work+"/real", f.Work+"/swap"))
	work, err := syscall.Open(f.Work, syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	f.Must(err)
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
			if err := sys.RenameAt(work, "swap", work, "evil", renameExchange); err != nil {
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
	f.Put(f.Work+"/keep/mine", "mine")
	reads, writes := map[string]int{}, map[string]int{}
	tarball := tarOf(t, file("swap/unpacked", []byte("x")))
	for i := 0; i < rounds; i++ {
		_, body, err := f.Call("read", wire.Fields{"path": "swap/secret"}, nil)
		if err == nil && string(body) != "inside" {
			t.Fatalf("read %q", body)
		}
		reads[runnertest.CodeName(err)]++
		_, _, err = f.Call("write", wire.Fields{"path": "swap/written"}, []byte("x"))
		writes[runnertest.CodeName(err)]++
		f.Call("fs.mkdir", wire.Fields{"path": "swap/made"}, nil)
		f.Call("fs.move", wire.Fields{"from": "keep/mine", "to": "swap/mine", "overwrite": true}, nil)
		f.Call("fs.move", wire.Fields{"from": "swap/mine", "to": "keep/mine", "overwrite": true}, nil)
		f.Call("fs.remove", wire.Fields{"path": "swap/made", "recursive": true}, nil)
		if _, list, err := f.Call("fs.search", wire.Fields{"path": ".", "text": "outside"}, nil); err == nil && string(list) != "[]" {
			t.Fatalf("search found %s", list)
		}
		if i%200 == 0 {
			f.Stream("archive.put", wire.Fields{"path": "."}).Upload(tarball, 4096)
			f.Untouched()
		}
	}
	// A recursive remove while the link appears and disappears removes the link, not its target.
	for i := 0; i < 100; i++ {
		f.Call("fs.remove", wire.Fields{"path": "keep/tree", "recursive": true}, nil)
		f.Call("write", wire.Fields{"path": "keep/tree/swap/x"}, []byte("x"))
	}
	close(stop)
	racer.Wait()
	f.Untouched()
	for _, seen := range []map[string]int{reads, writes} {
		if seen["no error"] == 0 || seen[wire.CodePathOutside] == 0 {
			t.Errorf("the race was not run: reads %v, writes %v, swaps %d", reads, writes, atomic.LoadInt64(&swaps))
		}
	}
	t.Logf("%d swaps, reads %v, writes %v", atomic.LoadInt64(&swaps), reads, writes)
}

// The removed tree contains a directory that is repeatedly swapped for a link to the outside.
func TestARecursiveRemoveIsNotLedAway(t *testing.T) { bothWays(t, removeWhileSwapped) }

func removeWhileSwapped(t *testing.T) {
	f := newMemoryFixture(t)
	f.Must(os.Chmod(f.Outside, 0o777))
	rounds := 1500
	if testing.Short() {
		rounds = 100
	}
	for i := 0; i < rounds; i++ {
		tree := f.Work + "/tree"
		f.Must(os.MkdirAll(tree+"/a/b", 0o755))
		f.Must(os.MkdirAll(tree+"/z", 0o755))
		f.Must(os.WriteFile(tree+"/a/b/file", nil, 0o644))
		done := make(chan struct{})
		go func() {
			defer close(done)
			for j := 0; j < 20; j++ {
				os.Rename(tree+"/a", tree+"/away")
				os.Symlink(f.Outside, tree+"/a")
				os.Remove(tree + "/a")
				os.Rename(tree+"/away", tree+"/a")
			}
		}()
		f.Call("fs.remove", wire.Fields{"path": "tree", "recursive": true}, nil)
		<-done
		f.Untouched()
		f.Must(os.RemoveAll(tree))
	}
}

// bothWays runs a test with openat2, and as on a kernel without it.
func bothWays(t *testing.T, test func(t *testing.T)) {
	t.Run("with openat2", test)
	t.Run("with a walk", func(t *testing.T) {
		sys.WithoutOpenat2(func() { test(t) })
	})
}
