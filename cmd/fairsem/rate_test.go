package main

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
)

func TestARateIsUnitsAndAWindow(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		units  int64
		window time.Duration
	}{
		"5/s":               {5, time.Second},
		"100/1m":            {100, time.Minute},
		"1000/h":            {1000, time.Hour},
		"20/90s":            {20, 90 * time.Second},
		"1/ms":              {1, time.Millisecond},
		"3/1h30m":           {3, 90 * time.Minute},
		"2/1.5s":            {2, 1500 * time.Millisecond},
		"20/24h":            {20, 24 * time.Hour},
		"4611686018427/10s": {4611686018427, 10 * time.Second},
	} {
		units, window, err := parseRate(text)
		require.NoError(t, err, text)
		assert.Equal(t, want.units, units, text)
		assert.Equal(t, want.window, window, text)
	}
}

func TestAnInvalidRateIsRefusedWithAnExplanation(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                       "not units and a window",
		"5":                      "not units and a window",
		"/s":                     "not units and a window",
		"-5/s":                   "not units and a window",
		"+5/s":                   "not units and a window",
		"1.5/s":                  "not units and a window",
		" 5/s":                   "not units and a window",
		"99999999999999999999/s": "not units and a window",
		"5/":                     "has no window",
		"5/1":                    "has no window",
		"5/d":                    "has no window",
		"5/s/s":                  "has no window",
		"5/ s":                   "has no window",
		"0/s":                    "grants nothing",
		"5/0s":                   "below 1ms",
		"5/-3s":                  "below 1ms",
		"5/999us":                "below 1ms",
	} {
		_, _, err := parseRate(text)
		require.ErrorContains(t, err, want, text)
		require.ErrorContains(t, err, "RATE "+strconv.Quote(text))
		var coded *exit.Error
		require.ErrorAs(t, err, &coded)
		assert.Equal(t, exit.Usage, coded.Code)
	}
}
