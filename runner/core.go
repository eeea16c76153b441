package main

// coreHandlers are the requests about the sandbox as a whole.
var coreHandlers = map[string]handler{
	"ping":     func(*runner, *request) (fields, []byte, error) { return fields{"ok": true}, nil, nil },
	"ports":    answerPorts,
	"stats":    answerStats,
	"shutdown": answerShutdown,
}

var coreStreams = map[string]streamHandler{
	"dial": dialPort,
}
