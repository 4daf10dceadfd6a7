package main

import (
	"errors"
	"regexp"
	"strings"
	"time"
)

const changelog = "CHANGELOG.md"

var (
	unreleased = regexp.MustCompile(`(?m)^## Unreleased[ \t]*$`)
	section    = regexp.MustCompile(`(?m)^## `)
	entry      = regexp.MustCompile(`(?m)^[-*] `)
)

// datedChangelog makes the text under Unreleased the notes of a version. It returns the new text and the notes.
func datedChangelog(text, version string, date time.Time) (changed, notes string, err error) {
	at := unreleased.FindStringIndex(text)
	if at == nil {
		return "", "", errors.New(changelog + ` has no heading "## Unreleased": write what users notice under one`)
	}
	rest := text[at[1]:]
	if next := section.FindStringIndex(rest); next != nil {
		rest = rest[:next[0]]
	}
	if !entry.MatchString(rest) {
		return "", "", errors.New(changelog + ` has nothing under "## Unreleased": write what users notice there`)
	}
	heading := "\n\n## " + strings.TrimPrefix(version, "v") + " - " + date.UTC().Format(time.DateOnly)
	return text[:at[1]] + heading + text[at[1]:], strings.TrimSpace(rest), nil
}
