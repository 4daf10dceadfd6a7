package text

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON returns v as one line, with everything escaped that Clean escapes: a reader of JSON gets the same
// strings, and a terminal gets no orders. Bytes that are no UTF-8 become U+FFFD. v must be of a type that
// can be written.
func JSON(v any) []byte {
	var raw bytes.Buffer
	e := json.NewEncoder(&raw)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // a programming error, like a value of a type that JSON does not have
	}
	line := bytes.TrimSuffix(raw.Bytes(), []byte("\n"))
	var b bytes.Buffer
	var plain scanner
	for len(line) > 0 {
		r, size := utf8.DecodeRune(line)
		if plain.hides(r) { // inside of a string: the rest of JSON is visible ASCII
			escape(&b, r)
		} else {
			b.Write(line[:size])
		}
		line = line[size:]
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// NotUTF8 returns the bytes of s if JSON would change them, for a field beside the one of s.
func NotUTF8(s string) []byte {
	if utf8.ValidString(s) {
		return nil
	}
	return []byte(s)
}

func escape(b *bytes.Buffer, r rune) {
	for _, unit := range utf16.Encode([]rune{r}) {
		fmt.Fprintf(b, `\u%04x`, unit)
	}
}
