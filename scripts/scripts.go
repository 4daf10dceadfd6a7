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
func Text(verb string) string {
	var text strings.Builder
	for line := range strings.Lines(read(verb + ".lua")) {
		if file, found := strings.CutPrefix(line, "-- include "); found {
			line = read(strings.TrimSpace(file))
		}
		text.WriteString(line)
	}
	return text.String()
}

func read(file string) string {
	text, err := sources.ReadFile(file)
	if err != nil {
		panic(err)
	}
	return string(text)
}
