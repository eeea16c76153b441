package archive

import (
	"os"
	"syscall"
	"testing"

	"sandglass/runner/internal/wire"
)

func TestCallsHaveTheRightsOfTheUser(t *testing.T) {
	f := newFileFixture(t).AsSandbox()
	f.OK("write", wire.Fields{"path": "dir/mine"}, []byte("x"))
	f.OK("fs.mkdir", wire.Fields{"path": "made"}, nil)
	if m := f.Stream("file.put", wire.Fields{"path": "put"}).Upload([]byte("x"), 1); m["type"] != "done" {
		t.Fatal(m)
	}
	if m := f.Stream("archive.put", wire.Fields{"path": "."}).Upload(tarOf(t, file("tar/unpacked", nil)), 512); m["type"] != "done" {
		t.Fatal(m)
	}
	for _, name := range []string{"dir", "dir/mine", "made", "put", "tar", "tar/unpacked"} {
		var st syscall.Stat_t
		f.Must(syscall.Stat(f.Work+"/"+name, &st))
		if st.Uid != 54321 || st.Gid != 54321 {
			t.Errorf("%s belongs to %d:%d", name, st.Uid, st.Gid)
		}
	}
	f.Must(os.Mkdir(f.Work+"/root", 0o700))
	f.Put(f.Work+"/root/file", "root's")
	f.Put(f.Work+"/group", "for root's group")
	f.Must(os.Chmod(f.Work+"/group", 0o040))
	for kind, path := range map[string]string{"read": "root/file", "fs.list": "root", "fs.stat": "root/file", "fs.mkdir": "root/new"} {
		f.Fails(wire.CodePermissionDenied, kind, wire.Fields{"path": path}, nil)
	}
	f.Fails(wire.CodePermissionDenied, "read", wire.Fields{"path": "group"}, nil)
	f.Fails(wire.CodePermissionDenied, "write", wire.Fields{"path": "root/new"}, []byte("x"))
	f.Fails(wire.CodePermissionDenied, "fs.remove", wire.Fields{"path": "root/file"}, nil)
	f.Fails(wire.CodePermissionDenied, "fs.move", wire.Fields{"from": "root/file", "to": "stolen"}, nil)
	_, body := f.OK("read", wire.Fields{"path": "root/file", "user": "root"}, nil)
	if string(body) != "root's" {
		t.Errorf("%q", body)
	}
	f.Fails(wire.CodeInvalidRequest, "read", wire.Fields{"path": "root/file", "user": "daemon"}, nil)
}
