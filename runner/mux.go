package main

import "io"

func serveMux(r io.Reader, w io.WriteCloser, serve func(carrier, *wireReader, *wireWriter)) {}
