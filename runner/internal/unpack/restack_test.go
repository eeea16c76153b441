package unpack

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func planned(t *testing.T, layer []byte, maxEntries string) (string, result) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plan")
	_, r := restacked(t, layer, "--plan", file, "--max-entries", maxEntries)
	return file, r
}

func restacked(t *testing.T, layer []byte, args ...string) ([]byte, result) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", append([]string{"restack-layer"}, args...)...)
	cmd.Stdin = bytes.NewReader(layer)
	said := &bytes.Buffer{}
	cmd.Stderr = said
	out, _ := cmd.Output()
	r := result{}
	if err := json.Unmarshal(said.Bytes(), &r); err != nil {
		t.Fatalf("%v: %.2000q", err, said)
	}
	return out, r
}

func TestARestackedLayerHasItsEntriesWhereTheyReallyAre(t *testing.T) {
	layer := layerOf(t, file("a/b/f", "content"), symlink("l", "a/b"), file("l/g", "through"), file("a/.wh.gone", ""), file("b/.wh..wh..opq", ""),
		entry{name: "b", kind: tar.TypeDir, mode: 0o700, xattrs: map[string]string{"user.x": "y"}}, hardlink("l/h", "l/g"), file("a/b/f", "again"))
	plan, r := planned(t, layer, "20")
	if !r.Ok {
		t.Fatalf("%+v", r)
	}
	out, r := restacked(t, layer, "--folder", "3", "--with", plan)
	if !r.Ok {
		t.Fatalf("%+v", r)
	}
	got := []string{}
	for in := tar.NewReader(bytes.NewReader(out)); ; {
		header, err := in.Next()
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		attribute := header.PAXRecords[xattrPax+"trusted.overlay.opaque"] + header.PAXRecords[xattrPax+"user.x"]
		got = append(got, fmt.Sprintf("%c %s %o %s%s%s", header.Typeflag, header.Name, header.Mode, header.Linkname, content, attribute))
	}
	want := "5 3 755 |5 3/a 755 |5 3/a/b 755 |5 3/b 700 yy|3 3/a/gone 0 |2 3/l 644 a/b|0 3/a/b/g 644 through|1 3/a/b/h 644 3/a/b/g|0 3/a/b/f 644 again"
	if strings.Join(got, "|") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "|"), want)
	}
}

func TestTimesAreThoseThatSquashfsHas(t *testing.T) {
	for given, want := range map[time.Time]int64{
		time.Unix(-9_999_999_999_999, 0):      0,
		time.Unix(-1, 500):                    0,
		time.Unix(1_600_000_000, 750_000_000): 1_600_000_000,
		time.Unix(99_999_999_999_999_999, 0):  1<<32 - 1,
	} {
		buffer := &bytes.Buffer{}
		w := tar.NewWriter(buffer)
		for name, kind := range map[string]byte{"d": tar.TypeDir, "f": tar.TypeReg} {
			if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: kind, Mode: 0o755, ModTime: given, Format: tar.FormatPAX}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		plan, _ := planned(t, buffer.Bytes(), "10")
		out, r := restacked(t, buffer.Bytes(), "--folder", "0", "--with", plan)
		if !r.Ok {
			t.Fatalf("%v: %+v", given, r)
		}
		in := tar.NewReader(bytes.NewReader(out))
		for _, name := range []string{"0", "0/d", "0/f"} {
			header, err := in.Next()
			if err != nil || header.Name != name {
				t.Fatalf("%v: %+v, %v", given, header, err)
			}
			if name != "0" && !header.ModTime.Equal(time.Unix(want, 0)) {
				t.Errorf("%v: %s is of %v", given, name, header.ModTime)
			}
		}
	}
}

func TestAPlanHasNoMoreEntriesThanAnImageMayHave(t *testing.T) {
	replaced := make([]entry, 400)
	whiteouts := make([]entry, 400)
	for i := range replaced {
		replaced[i] = file("f", "")
		whiteouts[i] = file(fmt.Sprintf(".wh.%d", i), "")
	}
	for name, entries := range map[string][]entry{"implied folders": deepFiles(20, 100), "one name": replaced, "whiteouts": whiteouts} {
		plan, r := planned(t, layerOf(t, entries...), "300")
		if r.Code != codeManyEntries {
			t.Errorf("%s: %+v", name, r)
		}
		if _, err := os.Stat(plan); err == nil {
			t.Errorf("%s: there is a plan", name)
		}
	}
	if _, r := planned(t, layerOf(t, file("a/b/c", "")), "3"); !r.Ok {
		t.Errorf("two folders and a file: %+v", r)
	}
}

func TestAPlansNamesAreBoundedTogether(t *testing.T) {
	layers := map[string][]entry{"folders": nil, "through a link": {symlink("l", strings.Repeat("d", 200))}, "attributes": nil, "links": nil, "whiteouts": nil}
	long := strings.Repeat("n", 200)
	for i := 0; i < 10; i++ {
		name := fmt.Sprintf("%s%d", long, i)
		layers["folders"] = append(layers["folders"], folder(name+"/a"))
		layers["through a link"] = append(layers["through a link"], file(fmt.Sprintf("l/%d", i), ""))
		layers["attributes"] = append(layers["attributes"], entry{name: "a", kind: tar.TypeDir, xattrs: map[string]string{"user.x": long}})
		layers["links"] = append(layers["links"], symlink(fmt.Sprint(i), long))
		layers["whiteouts"] = append(layers["whiteouts"], file(".wh."+name, ""))
	}
	for name, entries := range layers {
		p := newPlanner(1000)
		p.text = maxPlanText - 1000
		_, err := p.read(bytes.NewReader(layerOf(t, entries...)))
		if code, _, _ := describe(err); code != codeManyNameBytes {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAPlanHasNoPathsThatAreTooDeep(t *testing.T) {
	deep := []entry{folder(strings.Repeat("d/", 200)), symlink("l", strings.Repeat("d/", 200)), file("l/"+strings.Repeat("e/", 200)+"f", "")}
	if _, r := planned(t, layerOf(t, deep...), "1000000"); r.Code != "invalid" {
		t.Errorf("%+v", r)
	}
}
