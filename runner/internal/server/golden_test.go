package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"reflect"
	"testing"

	"sandglass/runner/internal/config"
	"sandglass/runner/internal/mux"
	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

// A golden is a golden file, which the tests of both sides read. <name>.bin has the bytes and <name>.json their meaning:
// a message with its body, or a list of frames. UPDATE_GOLDEN=1 writes the files again.
type golden struct {
	From    string        `json:"from"`
	Message wire.Fields   `json:"message,omitempty"`
	Body    *string       `json:"body,omitempty"`
	Frames  []goldenFrame `json:"frames,omitempty"`
}

type goldenFrame struct {
	From    string `json:"from,omitempty"` // in a conversation
	Kind    string `json:"kind"`
	Stream  uint32 `json:"stream"`
	Payload string `json:"payload,omitempty"`
	Credit  uint32 `json:"credit,omitempty"`
}

var frameKinds = map[string]byte{"OPEN": mux.Open, "DATA": mux.Data, "CREDIT": mux.Credit, "END": mux.End, "RESET": mux.Reset}

func (g goldenFrame) frame() runnertest.Frame {
	if g.Kind == "CREDIT" {
		return runnertest.Credit(g.Stream, g.Credit)
	}
	return runnertest.NewFrame(frameKinds[g.Kind], g.Stream, []byte(g.Payload))
}

var pingLine, pingReply = `{"id":"1","type":"ping"}` + "\n", `{"id":"1","ok":true,"type":"ping"}` + "\n"

func body(s string) *string { return &s }

var goldens = map[string]golden{
	"hello":        {From: "client", Message: wire.Fields{"type": "hello", "version": 1.0, "token": "0123456789abcdef"}},
	"hello-mux":    {From: "client", Message: wire.Fields{"type": "hello", "version": 1.0, "token": "0123456789abcdef", "mux": true}},
	"ready":        {From: "runner", Message: wire.Fields{"type": "ready", "ready": true, "version": 1.0, "runner": "0.1.0", "boot_id": "00112233445566778899aabbccddeeff", "pid": 1.0}},
	"hello-device": {From: "client", Message: wire.Fields{"type": "hello", "version": 1.0, "token": "0123456789abcdef", "mux": true, "nonce": "ffeeddccbbaa99887766554433221100"}},
	"ready-device": {From: "runner", Message: wire.Fields{"type": "ready", "ready": true, "version": 1.0, "runner": "0.1.0", "boot_id": "00112233445566778899aabbccddeeff", "pid": 1.0, "nonce": "ffeeddccbbaa99887766554433221100"}},
	"exec-request": {From: "client", Message: wire.Fields{"id": "a", "type": "exec", "cmd": "printf 'é\\n'", "shell": "main", "timeout_ms": 30000.0, "max_output_bytes": 1048576.0, "key": "k0"}},
	"exec-reply": {From: "runner", Message: wire.Fields{
		"id": "a", "type": "exec", "exit_code": 0.0, "shell": "main", "cwd": "/workspace", "truncated": false, "timed_out": false, "started": true, "shell_exited": false, "duration_ms": 1.5, "bytes": 4.0,
	}, Body: body("é\r\n")},
	"exec-empty-reply": {From: "runner", Message: wire.Fields{
		"id": "a", "type": "exec", "exit_code": 1.0, "shell": "main", "cwd": "/", "truncated": false, "timed_out": false, "started": true, "shell_exited": false, "duration_ms": 0.25, "bytes": 0.0,
	}, Body: body("")},
	"exec-settings": {From: "client", Message: wire.Fields{
		"id": "s", "type": "exec", "cmd": "cat", "shell": "main", "user": "root", "cwd": "/tmp", "env": map[string]any{"A": "it's"}, "stdin_path": "/tmp/in", "key": "k1", "stream": true,
	}},
	"exec-accepted": {From: "runner", Message: wire.Fields{"id": "s", "type": "exec", "shell": "main@root"}},
	"exec-waiting":  {From: "runner", Message: wire.Fields{"type": "exec_waiting"}},
	"exec-started":  {From: "runner", Message: wire.Fields{"type": "exec_started"}},
	"exec-done": {From: "runner", Message: wire.Fields{
		"type": "exec_done", "exit_code": 124.0, "shell": "main@root", "cwd": "/", "truncated": false, "timed_out": true, "started": false, "shell_exited": false, "duration_ms": 0.0,
	}},
	"exec-cancel":     {From: "client", Message: wire.Fields{"id": "d", "type": "exec.cancel", "key": "k1"}},
	"shell-interrupt": {From: "client", Message: wire.Fields{"id": "e", "type": "shell.interrupt", "name": "main@root"}},
	"exec-chunk":      {From: "runner", Message: wire.Fields{"type": "exec_chunk", "bytes": 6.0}, Body: body("{\"a\"}\n")},
	"error":           {From: "runner", Message: wire.Fields{"id": "b", "type": "error", "code": "FILE_NOT_FOUND", "message": "no such file or directory: /workspace/x", "detail": map[string]any{"path": "/workspace/x"}}},
	"stdin-request":   {From: "client", Message: wire.Fields{"id": "c", "type": "process.stdin", "pid": 42.0, "close": true, "bytes": 3.0}, Body: body("a\x00b")},
	"process-start":   {From: "client", Message: wire.Fields{"id": "f", "type": "process.start", "argv": []any{"cat"}, "stdin": true, "keep_output": true}},
	"process-attached": {From: "runner", Message: wire.Fields{
		"id": "s", "type": "process.attach", "stdout_acknowledged": 4096.0, "stderr_acknowledged": 0.0, "process": map[string]any{
			"pid": 42.0, "tag": nil, "argv": []any{"cat"}, "user": "sandbox", "cwd": "/workspace", "running": false, "exit_code": 0.0, "timed_out": false, "tty": false,
			"stdin_open": false, "detached": false, "created_at_ms": 1700000000000.0, "ended_at_ms": 1700000001000.0,
		},
	}},
	"process-ack": {From: "client", Message: wire.Fields{"type": "ack", "stdout": 4096.0, "stderr": 0.0}},

	"egress-config":   {From: "client", Message: wire.Fields{"type": "config", "generation": 1.0}},
	"egress-resolve":  {From: "runner", Message: wire.Fields{"type": "resolve", "query": 1.0, "name": "example.com"}},
	"egress-resolved": {From: "client", Message: wire.Fields{"type": "resolved", "query": 1.0, "generation": 1.0, "answer": "address", "ports": []any{8080.0, 8443.0}}},
	"egress-refused":  {From: "client", Message: wire.Fields{"type": "resolved", "query": 2.0, "generation": 1.0, "answer": "refused"}},
	"egress-connection": {From: "runner", Message: wire.Fields{
		"type": "connection", "connection": 1.0, "name": "example.com", "port": 8443.0, "via": "name",
	}},
	"egress-take":        {From: "client", Message: wire.Fields{"id": "t", "type": "take", "connection": 1.0}},
	"egress-taken":       {From: "runner", Message: wire.Fields{"id": "t", "type": "take", "ok": true}},
	"egress-refuse":      {From: "client", Message: wire.Fields{"type": "refuse", "connection": 2.0}},
	"egress-closed":      {From: "runner", Message: wire.Fields{"type": "closed", "connection": 3.0}},
	"egress-bind-failed": {From: "runner", Message: wire.Fields{"type": "bind_failed", "name": "example.com", "port": 443.0, "message": "listen tcp4 127.64.0.2:443: bind: address already in use"}},

	"mux-open":   {From: "client", Frames: []goldenFrame{{Kind: "OPEN", Stream: 1}}},
	"mux-data":   {From: "client", Frames: []goldenFrame{{Kind: "DATA", Stream: 1, Payload: "hello\n"}}},
	"mux-credit": {From: "runner", Frames: []goldenFrame{{Kind: "CREDIT", Stream: 4294967295, Credit: 65536}}},
	"mux-end":    {From: "client", Frames: []goldenFrame{{Kind: "END", Stream: 3}}},
	"mux-reset":  {From: "runner", Frames: []goldenFrame{{Kind: "RESET", Stream: 2049}}},
	"mux-over":   {From: "runner", Frames: []goldenFrame{{Kind: "RESET", Stream: 0}}},
	"mux-conversation": {From: "both", Frames: []goldenFrame{
		{From: "client", Kind: "OPEN", Stream: 1}, {From: "client", Kind: "DATA", Stream: 1, Payload: pingLine},
		{From: "runner", Kind: "DATA", Stream: 1, Payload: pingReply},
		{From: "client", Kind: "END", Stream: 1}, {From: "runner", Kind: "END", Stream: 1},
		{From: "client", Kind: "OPEN", Stream: 3}, {From: "client", Kind: "RESET", Stream: 3}, {From: "client", Kind: "CREDIT", Stream: 3, Credit: 5},
		{From: "client", Kind: "OPEN", Stream: 5}, {From: "client", Kind: "DATA", Stream: 5, Payload: pingLine[:10]}, {From: "client", Kind: "DATA", Stream: 5, Payload: pingLine[10:]},
		{From: "runner", Kind: "DATA", Stream: 5, Payload: pingReply},
	}},
}

func (g golden) encode(t *testing.T) []byte {
	var raw []byte
	for _, f := range g.Frames {
		raw = append(raw, f.frame().Encode()...)
	}
	if g.Message != nil {
		line, err := json.Marshal(g.Message)
		if err != nil {
			t.Fatal(err)
		}
		raw = append(line, '\n')
		if g.Body != nil {
			raw = append(raw, *g.Body...)
		}
	}
	return raw
}

func TestGoldenFilesMeanWhatTheySay(t *testing.T) {
	for name, want := range goldens {
		raw := want.encode(t)
		meaning, err := json.MarshalIndent(want, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		files := map[string][]byte{".bin": raw, ".json": append(meaning, '\n')}
		for ext, content := range files {
			path := "../../testdata/" + name + ext
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(path, content, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, content) {
				t.Errorf("%s differs (%v): UPDATE_GOLDEN=1 writes it", path, err)
			}
		}
		if want.Message == nil {
			continue
		}
		in := wire.NewReader(bytes.NewReader(raw))
		line, err := in.Line()
		if err != nil {
			t.Fatal(err)
		}
		got := wire.Fields{}
		if err := json.Unmarshal(line, &got); err != nil || !reflect.DeepEqual(got, want.Message) {
			t.Errorf("%s: %v", name, got)
		}
		n, _ := got["bytes"].(float64)
		rest, err := io.ReadAll(in.Body(int64(n)))
		if err != nil || want.Body != nil && string(rest) != *want.Body {
			t.Errorf("%s: body %q, %v", name, rest, err)
		}
	}
}

func TestTheRunnerSendsMessagesAsInTheGoldenFiles(t *testing.T) {
	for name, want := range goldens {
		if want.Message == nil || want.From != "runner" {
			continue
		}
		var out bytes.Buffer
		f := wire.Fields{}
		for k, v := range want.Message {
			if k != "type" && k != "id" && k != "bytes" {
				f[k] = v
			}
		}
		var content []byte
		if want.Body != nil {
			content = []byte(*want.Body)
		}
		id, _ := want.Message["id"].(string)
		if err := (wire.NewWriter(&out)).Message(want.Message["type"].(string), id, f, content); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(out.Bytes(), want.encode(t)) {
			t.Errorf("%s: sent %q", name, out.String())
		}
	}
}

// The runner's side of the conversation, played against the real multiplexer.
func TestTheGoldenConversation(t *testing.T) {
	srv, err := New(&config.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := socketPair(t)
	carrierEnd := newSocket(t, theirs)
	done := make(chan error, 1)
	go func() { done <- mux.Serve(bufio.NewReader(carrierEnd), carrierEnd, srv.endpoint.serveMessages) }()
	m := &runnertest.Mux{T: t, Conn: ours, In: wire.NewReader(ours)}
	for i, f := range goldens["mux-conversation"].Frames {
		if f.From == "client" {
			m.Write(f.frame())
			continue
		}
		// The end of a stream that was reset may come at any time: it is dropped.
		got, ok := m.Read()
		for ok && got.Number == 3 {
			got, ok = m.Read()
		}
		if !ok || !bytes.Equal(got.Encode(), f.frame().Encode()) {
			t.Fatalf("frame %d: got %+v, want %+v", i, got, f)
		}
	}
	ours.Close()
	if err := <-done; err != nil {
		t.Errorf("the carrier ended with %v", err)
	}
}
