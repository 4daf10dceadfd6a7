// Package scripts has the Lua that runs in Redis.
package scripts

import (
	"bytes"
	"embed"
)

//go:embed *.lua
var sources embed.FS

// Text returns the script of a verb: its file, in which a line "-- include NAME.lua" stands for that other file. The files
// are embedded, and the tests use each of them, so none is missing.
func Text(verb string) []byte { return bytes.Join(appendParts(nil, verb+".lua"), nil) }

// appendParts appends what a file consists of, so that all of a script is copied together once.
func appendParts(parts [][]byte, file string) [][]byte {
	for i, part := range bytes.Split(read(file), []byte("-- include ")) {
		if i > 0 {
			file, rest, _ := bytes.Cut(part, []byte("\n"))
			parts, part = appendParts(parts, string(file)), rest
		}
		parts = append(parts, part)
	}
	return parts
}

func read(file string) []byte {
	text, err := sources.ReadFile(file)
	if err != nil {
		panic(err)
	}
	return text
}
