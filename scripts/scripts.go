// Package scripts has the Lua that runs in Redis.
package scripts

import (
	"embed"
	"strings"
)

//go:embed *.lua
var sources embed.FS

// Text returns the script of a verb: its file, in which a line "-- include NAME.lua" stands for that other file. The files
// are embedded, so a missing one panics at the start of every test.
func Text(verb string) string { return expand(verb + ".lua") }

func expand(file string) string {
	parts := strings.Split(read(file), "-- include ")
	for i, part := range parts[1:] {
		file, rest, _ := strings.Cut(part, "\n")
		parts[i+1] = expand(file) + rest
	}
	return strings.Join(parts, "")
}

func read(file string) string {
	text, err := sources.ReadFile(file)
	if err != nil {
		panic(err)
	}
	return string(text)
}
