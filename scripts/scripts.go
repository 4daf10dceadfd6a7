// Package scripts has the Lua that runs in Redis.
package scripts

import (
	"embed"
	"fmt"
)

//go:embed *.lua
var sources embed.FS

// Text returns the script of a verb, joined from files. The files are embedded, so a missing one panics at the start of
// every test.
func Text(verb string, files ...string) string {
	text := fmt.Sprintf("local VERB = %q\n", verb)
	for _, file := range files {
		part, err := sources.ReadFile(file + ".lua")
		if err != nil {
			panic(err)
		}
		text += string(part)
	}
	return text
}
