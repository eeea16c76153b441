package main

// coreHandlers are the requests about the runner itself.
var coreHandlers = map[string]handler{
	"ping": func(*runner, *request) (fields, []byte, error) { return fields{"ok": true}, nil, nil },
}

var coreStreams = map[string]streamHandler{}
var processHandlers = map[string]handler{}
var processStreams = map[string]streamHandler{}
