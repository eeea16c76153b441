package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"

	"sandglass/runner/internal/server"
	"sandglass/runner/internal/wire"
)

// runClient sends one request to a runner and prints the reply as one line that contains the body.
// It returns the exit code: 1 when the reply is an error.
func runClient(opts *options, out io.Writer) (int, error) {
	token, err := os.ReadFile(opts.tokenFile)
	if err != nil {
		return 0, fmt.Errorf("read token: %w", err)
	}
	call := wire.Fields{}
	if err := json.Unmarshal([]byte(opts.client), &call); err != nil {
		return 0, fmt.Errorf("request is not a JSON object: %w", err)
	}
	if _, ok := call["id"]; !ok {
		call["id"] = "client"
	}
	line, err := json.Marshal(call)
	if err != nil {
		return 0, err
	}
	conn, err := net.Dial("unix", opts.socket)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	in, hello := wire.NewReader(conn), wire.NewWriter(conn)
	if err := hello.Message("hello", "", wire.Fields{"version": server.ProtocolVersion, "token": string(bytes.TrimSpace(token))}, nil); err != nil {
		return 0, err
	}
	ready, isError, err := readReply(in)
	if err != nil {
		return 0, err
	}
	if isError {
		return 0, fmt.Errorf("the runner refused the hello: %v", ready["message"])
	}
	if _, err := conn.Write(append(line, '\n')); err != nil {
		return 0, err
	}
	var reply wire.Fields
	reply, isError, err = readReply(in)
	if err != nil {
		return 0, err
	}
	folded, err := json.Marshal(reply)
	if err != nil {
		return 0, err
	}
	if _, err := fmt.Fprintf(out, "%s\n", folded); err != nil {
		return 0, err
	}
	if isError {
		return 1, nil
	}
	return 0, nil
}

// readReply reads one message and puts its body into a field: output for exec, content_base64 for other types.
func readReply(in *wire.Reader) (reply wire.Fields, isError bool, err error) {
	line, err := in.Line()
	if err != nil {
		return nil, false, fmt.Errorf("read reply: %w", err)
	}
	var head struct {
		Type  string `json:"type"`
		Bytes int64  `json:"bytes"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return nil, false, fmt.Errorf("read reply: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	if err := decoder.Decode(&reply); err != nil {
		return nil, false, fmt.Errorf("read reply: %w", err)
	}
	if _, ok := reply["bytes"]; ok {
		if head.Bytes < 0 || head.Bytes > wire.MaxBodyBytes {
			return nil, false, fmt.Errorf("reply has %d bytes", head.Bytes)
		}
		body, err := io.ReadAll(in.Body(head.Bytes))
		if err != nil {
			return nil, false, fmt.Errorf("read reply: %w", err)
		}
		delete(reply, "bytes")
		if head.Type == "exec" {
			reply["output"] = wire.Text(string(body))
		} else {
			reply["content_base64"] = base64.StdEncoding.EncodeToString(body)
		}
	}
	return reply, head.Type == "error", nil
}
