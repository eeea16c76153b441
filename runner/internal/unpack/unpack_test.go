package unpack

import (
	"archive/tar"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestALayerComesOutAsItWasPutIn(t *testing.T) {
	long := strings.Repeat("d/", 120) + strings.Repeat("n", 200)
	top := unpacked(t,
		entry{name: "./", kind: tar.TypeDir, mode: 0o750},
		folder("etc"),
		entry{name: "etc/shadow", content: "x", kind: tar.TypeReg, mode: 0o640, uid: 42},
		entry{name: "bin/su", content: "#!", kind: tar.TypeReg, mode: 0o4755},
		entry{name: "tmp", kind: tar.TypeDir, mode: 0o1777},
		symlink("etc/mtab", "/proc/self/mounts"), symlink("up", "../../.."),
		hardlink("bin/sudo", "bin/su"),
		file("a\nb", "newline"), file(long, "deep"), file("/absolute", "inside"),
		entry{name: "pipe", kind: tar.TypeFifo},
	)
	if st := stat(t, top); st.Mode&0o7777 != 0o750 {
		t.Errorf("the root has mode %o", st.Mode)
	}
	if st := stat(t, top+"/etc/shadow"); st.Uid != 42 || st.Mode&0o7777 != 0o640 || st.Mtim.Sec != 1_600_000_000 {
		t.Errorf("shadow is %+v", st)
	}
	su, sudo := stat(t, top+"/bin/su"), stat(t, top+"/bin/sudo")
	if su.Mode&0o7777 != 0o4755 || su.Ino != sudo.Ino {
		t.Errorf("su is %o, and sudo is another file: %v", su.Mode, su.Ino != sudo.Ino)
	}
	if st := stat(t, top+"/tmp"); st.Mode&0o7777 != 0o1777 || st.Mtim.Sec != 1_600_000_000 {
		t.Errorf("tmp is %+v", st)
	}
	for path, want := range map[string]string{"a\nb": "newline", long: "deep", "absolute": "inside"} {
		if got := content(t, filepath.Join(top, path)); got != want {
			t.Errorf("%q holds %q", path, got)
		}
	}
	for path, want := range map[string]string{"etc/mtab": "/proc/self/mounts", "up": "../../.."} {
		if got, _ := os.Readlink(filepath.Join(top, path)); got != want {
			t.Errorf("%s leads to %q", path, got)
		}
	}
	if st := stat(t, top+"/pipe"); st.Mode&syscall.S_IFMT != syscall.S_IFIFO {
		t.Errorf("pipe is %o", st.Mode)
	}
}

func TestWhiteoutsBecomeWhatAnOverlayKnows(t *testing.T) {
	top := unpacked(t,
		file("etc/.wh.gone", ""), folder("opaque"), file("opaque/.wh..wh..opq", ""), file("opaque/new", "x"),
		// Deleted and made anew, in both orders.
		file(".wh.first", ""), folder("first"), file("first/in", "x"), folder("second"), file(".wh.second", ""),
		file(".wh.plain", ""), file("plain", "kept"),
		file(".wh..wh.plnk", ""),
	)
	if st := stat(t, top+"/etc/gone"); st.Mode&syscall.S_IFMT != syscall.S_IFCHR || st.Rdev != 0 {
		t.Errorf("gone is %o, device %d", st.Mode, st.Rdev)
	}
	for _, dir := range []string{"opaque", "first", "second"} {
		value := make([]byte, 8)
		n, err := syscall.Getxattr(filepath.Join(top, dir), "trusted.overlay.opaque", value)
		if err != nil || string(value[:n]) != "y" {
			t.Errorf("%s is not opaque: %v", dir, err)
		}
	}
	if got := content(t, top+"/plain"); got != "kept" {
		t.Errorf("plain holds %q", got)
	}
	if _, err := os.Lstat(top + "/.wh..wh.plnk"); !os.IsNotExist(err) {
		t.Errorf("another driver's file was kept")
	}
}

func TestAnOrdinaryUsersOverlayGetsItsOwnMark(t *testing.T) {
	top, r := unpackIn(t, t.TempDir(), layerOf(t, folder("d"), file("d/.wh..wh..opq", "")), "--user-xattrs")
	value := make([]byte, 8)
	if n, err := syscall.Getxattr(top+"/d", "user.overlay.opaque", value); !r.Ok || err != nil || string(value[:n]) != "y" {
		t.Errorf("not opaque: %v %+v", err, r)
	}
}

func TestALaterEntryTakesThePlaceOfAnEarlierOne(t *testing.T) {
	top := unpacked(t,
		file("f", "one"), file("f", "two"),
		folder("was-dir"), file("was-dir/x", "x"), file("was-dir", "file"),
		symlink("was-link", "f"), file("was-link", "file"),
		file("was-file", "x"), folder("was-file"), file("was-file/y", "y"),
		entry{name: "d", kind: tar.TypeDir, mode: 0o700}, entry{name: "d", kind: tar.TypeDir, mode: 0o711},
	)
	for path, want := range map[string]string{"f": "two", "was-dir": "file", "was-link": "file", "was-file/y": "y"} {
		if got := content(t, filepath.Join(top, path)); got != want {
			t.Errorf("%s holds %q", path, got)
		}
	}
	if st := stat(t, top+"/d"); st.Mode&0o777 != 0o711 {
		t.Errorf("d has mode %o", st.Mode)
	}
}

// SECURITY: each of these would write, link or read outside of the layer if names were taken at their word.
func TestNothingGetsOutOfTheLayer(t *testing.T) {
	refused := map[string][]entry{
		"a name that climbs":                {file("../escaped", "x")},
		"a name that climbs further on":     {folder("a"), file("a/../../escaped", "x")},
		"a hard link that climbs":           {hardlink("h", "../outside")},
		"a hard link to what is not there":  {hardlink("h", "outside")},
		"a hard link to a folder":           {folder("d"), hardlink("h", "d")},
		"a whiteout of the folder above":    {file("a/.wh...", "")},
		"a whiteout of nothing":             {file(".wh.", "")},
		"a path through a file":             {file("f", "x"), file("f/y", "x")},
		"a loop of links":                   {symlink("a", "b"), symlink("b", "a"), file("a/x", "x")},
		"a file as the root":                {file(".", "x")},
		"a part of a name that is too long": {file(strings.Repeat("n", 256), "x")},
		"a name that is too long":           {file(strings.Repeat("d/", 2100)+"f", "x")},
	}
	for name, entries := range refused {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			if err := os.WriteFile(filepath.Join(parent, "outside"), []byte("secret"), 0o600); err != nil {
				t.Fatal(err)
			}
			_, r := unpackIn(t, parent, layerOf(t, entries...))
			if r.Ok || r.Code != "invalid" || r.Issue == "" {
				t.Errorf("was taken: %+v", r)
			}
			assertOnly(t, parent)
		})
	}
}

// SECURITY: links are followed, but inside the layer, whatever they say.
func TestLinksAreFollowedOnlyInsideTheLayer(t *testing.T) {
	parent := t.TempDir()
	if err := os.WriteFile(filepath.Join(parent, "outside"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	top, r := unpackIn(t, parent, layerOf(t,
		symlink("abs", parent), file("abs/in", "1"),
		symlink("up", "../../../../.."), file("up/in", "2"),
		symlink("dangling", "made/by/link"), file("dangling/in", "3"),
		symlink("out", "../outside"), file("out", "4"),
		symlink("p", "/proc/self/root"), file("p/in", "5"),
	))
	if !r.Ok {
		t.Fatalf("%+v", r)
	}
	for path, want := range map[string]string{parent + "/in": "1", "in": "2", "made/by/link/in": "3", "out": "4", "proc/self/root/in": "5"} {
		if got := content(t, filepath.Join(top, path)); got != want {
			t.Errorf("%s holds %q", path, got)
		}
	}
	if got := content(t, filepath.Join(parent, "outside")); got != "secret" {
		t.Errorf("the file outside holds %q", got)
	}
	assertOnly(t, parent)
}

// assertOnly fails if there is more beside the layer than the one file that was there.
func assertOnly(t *testing.T, parent string) {
	t.Helper()
	found, err := os.ReadDir(parent)
	if err != nil || len(found) > 2 {
		t.Errorf("beside the layer: %v %v", found, err)
	}
}

// SECURITY: a device node would be the host's, and attributes can be orders to the kernel.
func TestDevicesAndAttributesThatDoSomethingAreLeftOut(t *testing.T) {
	top, r := unpackIn(t, t.TempDir(), layerOf(t,
		entry{name: "dev/sda", kind: tar.TypeBlock}, entry{name: "dev/mem", kind: tar.TypeChar},
		entry{name: "f", content: "x", kind: tar.TypeReg, xattrs: map[string]string{
			"user.note": "hello", "user.long": strings.Repeat("x", 70_000), "user." + strings.Repeat("n", 300): "x", "security.capability": "\x01\x00\x00\x02", "trusted.overlay.redirect": "/etc", "user.overlay.opaque": "y",
		}},
	))
	if !r.Ok || r.Skipped != 2 {
		t.Fatalf("%+v", r)
	}
	if _, err := os.Lstat(top + "/dev"); !os.IsNotExist(err) {
		t.Errorf("a device was made")
	}
	list := make([]byte, 1024)
	n, err := syscall.Listxattr(top+"/f", list)
	if err != nil || string(list[:n]) != "user.note\x00" {
		t.Errorf("attributes: %q %v", list[:n], err)
	}
}

func TestLimitsEndTheWork(t *testing.T) {
	many := make([]entry, 1001)
	for i := range many {
		many[i] = file(strings.Repeat("f", i%200+1), "")
	}
	if _, r := unpackIn(t, t.TempDir(), layerOf(t, many...)); r.Code != codeManyEntries {
		t.Errorf("too many entries: %+v", r)
	}
	if _, r := unpackIn(t, t.TempDir(), layerOf(t, file("a", strings.Repeat("x", 600)), file("b", strings.Repeat("x", 600))), "--max-bytes", "1000"); r.Code != codeManyBytes {
		t.Errorf("too many bytes: %+v", r)
	}
	big := strings.Repeat("x", 40<<20)
	if _, r := unpackIn(t, t.TempDir(), layerOf(t, file("big", big)), "--reserve-bytes", "9000000000000000"); r.Code != "full" {
		t.Errorf("no room: %+v", r)
	}
}

func TestWhatIsNoTarIsRefused(t *testing.T) {
	whole := layerOf(t, file("f", strings.Repeat("x", 5000)))
	for name, layer := range map[string][]byte{"cut off": whole[:2000], "not a tar": bytes.Repeat([]byte("no"), 1000)} {
		if _, r := unpackIn(t, t.TempDir(), layer); r.Code != "invalid" {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestHolesTakeNoRoom(t *testing.T) {
	top := unpacked(t, file("zeros", strings.Repeat("\x00", 8<<20)+"end"), file("all", strings.Repeat("\x00", 1<<20)))
	st := stat(t, top+"/zeros")
	if st.Size != 8<<20+3 || st.Blocks*512 > 1<<20 {
		t.Errorf("size %d, on disk %d", st.Size, st.Blocks*512)
	}
	if got := content(t, top+"/zeros"); !strings.HasSuffix(got, "\x00end") || strings.Count(got, "\x00") != 8<<20 {
		t.Errorf("the content changed")
	}
	if st := stat(t, top+"/all"); st.Size != 1<<20 {
		t.Errorf("size %d", st.Size)
	}
}

func TestSparseFilesAreTakenByTheSizeTheyShow(t *testing.T) {
	for _, format := range []string{"gnu", "posix"} {
		source := t.TempDir()
		for name, size := range map[string]int64{"small": 4 << 20, "huge": 1 << 40} {
			if err := os.WriteFile(filepath.Join(source, name), []byte("start"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(filepath.Join(source, name), size); err != nil {
				t.Fatal(err)
			}
		}
		sparse := func(name string) []byte {
			layer, err := exec.Command("tar", "-C", source, "--format="+format, "-cSf", "-", name).Output()
			if err != nil || len(layer) > 100_000 {
				t.Fatalf("tar: %v, %d bytes", err, len(layer))
			}
			return layer
		}
		top, r := unpackIn(t, t.TempDir(), sparse("small"))
		if st := stat(t, top+"/small"); !r.Ok || st.Size != 4<<20 || st.Blocks*512 > 1<<20 {
			t.Errorf("%s: %+v %+v", format, r, st)
		}
		if _, r := unpackIn(t, t.TempDir(), sparse("huge")); r.Code != codeManyBytes {
			t.Errorf("%s: a sparse file of a few bytes that shows 1 TiB: %+v", format, r)
		}
	}
}
