package main

import (
	"io"
	"strings"
	"testing"
)

func TestConfigurationOnTheFirstLineLeavesTheRestForClients(t *testing.T) {
	stdin := strings.NewReader(`{"token":"0123456789abcdef"}` + "\nhello")
	cfg, err := readConfig(&firstLine{from: stdin})
	if err != nil || cfg.Token != "0123456789abcdef" {
		t.Fatalf("got %v, %v", cfg, err)
	}
	rest, _ := io.ReadAll(stdin)
	if string(rest) != "hello" {
		t.Fatalf("the rest is %q", rest)
	}
}
