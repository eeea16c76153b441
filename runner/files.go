package main

var fileHandlers = map[string]handler{}

var fileStreams = map[string]streamHandler{}
