package main

import (
	"errors"
	"strconv"

	"github.com/spf13/pflag"
)

// number is a flag that is a decimal number. pflag's own takes 010 for 8, where RATE, LIMIT and the page take it for 10.
type number[N int | int64] struct{ to *N }

func (n number[N]) String() string {
	if n.to == nil { // pflag asks the zero value
		return "0"
	}
	return strconv.FormatInt(int64(*n.to), 10)
}

func (n number[N]) Set(given string) error {
	parsed, err := strconv.ParseInt(given, 10, 64)
	switch {
	case err != nil:
		return err
	case int64(N(parsed)) != parsed:
		return strconv.ErrRange
	}
	*n.to = N(parsed)
	return nil
}

func (number[N]) Type() string { return "int" }

// numberFlag adds a flag, whose default is what to has.
func numberFlag[N int | int64](f *pflag.FlagSet, to *N, name, short, usage string) {
	f.VarP(number[N]{to}, name, short, usage)
}

// textual is a flag that refuses an empty value. In a script that lacks a variable it would mean the default, such as another server.
type textual struct{ to *string }

func (t textual) String() string {
	if t.to == nil { // pflag asks the zero value
		return ""
	}
	return *t.to
}

func (t textual) Set(given string) error {
	if given == "" {
		return errors.New("it is empty")
	}
	*t.to = given
	return nil
}

func (textual) Type() string { return "string" }

// textFlag adds a flag, whose default is what to has.
func textFlag(f *pflag.FlagSet, to *string, name, usage string) { f.Var(textual{to}, name, usage) }
