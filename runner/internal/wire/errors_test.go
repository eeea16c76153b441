package wire

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The contract's table must have every code that the runner sends.
func TestEveryErrorCodeIsInTheContract(t *testing.T) {
	tables, err := filepath.Glob("../../../packages/contract/src/errors/*.ts")
	if err != nil {
		t.Fatal(err)
	}
	var contract strings.Builder
	for _, table := range tables {
		rows, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		contract.Write(rows)
	}
	source, err := os.ReadFile("errors.go")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`Code\w+\s+= "([A-Z_]+)"`).FindAllStringSubmatch(string(source), -1)
	if len(codes) < 20 {
		t.Fatalf("found %d codes", len(codes))
	}
	for _, code := range codes {
		if !strings.Contains(contract.String(), "\n  "+code[1]+": {") {
			t.Errorf("%s is not in the contract", code[1])
		}
	}
}
