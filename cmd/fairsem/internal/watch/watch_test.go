package watch

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var errDown = errors.New("down")

// repeat shows the results of queries one after the other, nil being a frame, and ends after the last.
func repeat(t *testing.T, results ...error) (out, notes string, err error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	var data, words bytes.Buffer
	err = output{&data, &words, 0}.repeat(ctx, time.Microsecond, func(context.Context) (Frame, error) {
		if len(results) == 0 {
			cancel(context.Canceled)
			return Frame{}, ctx.Err()
		}
		result := results[0]
		results = results[1:]
		return lines(1), result
	})
	return data.String(), words.String(), err
}

func TestAFirstQueryThatFailsEndsIt(t *testing.T) {
	out, notes, err := repeat(t, errDown, nil)
	require.ErrorIs(t, err, errDown)
	assert.Empty(t, out+notes)
}

func TestALaterQueryThatFailsIsReportedOnceAndPollingContinues(t *testing.T) {
	out, notes, err := repeat(t, nil, errDown, errors.New("down in other words"), nil, nil, errDown, nil)
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, "line\nline\nline\nline\n", out)
	assert.Equal(t, "note\ndown; polling continues\nnote\ndown; polling continues\nnote\n", notes)
}
