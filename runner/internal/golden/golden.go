// Package golden compares Go types with the documents in testdata/launcher, which the TypeScript tests read too. Only tests use it.
package golden

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"sandglass/runner/internal/strictjson"
)

// Read returns a document.
func Read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(module(t), "testdata", "launcher", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// RoundTrip decodes a document strictly into a value, encodes the value, and fails unless the result means the same.
func RoundTrip(t *testing.T, name string, into any) {
	t.Helper()
	data := Read(t, name)
	if err := strictjson.Decode(data, into); err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	encoded, err := json.Marshal(into)
	if err != nil {
		t.Fatal(err)
	}
	var want, got any
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(encoded, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: encoded again it is\n%s", name, encoded)
	}
}

// module is the folder with go.mod.
func module(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	t.Fatal("no go.mod above the test")
	return ""
}
