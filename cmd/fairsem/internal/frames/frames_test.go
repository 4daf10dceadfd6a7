package frames

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

// repeat shows what looks come to one after the other, nil being a frame, and ends then.
func repeat(t *testing.T, looks ...error) (out, talk string, err error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	var data, words bytes.Buffer
	err = Output{Out: &data, Notes: &words}.Repeat(ctx, time.Microsecond, func(context.Context) (Frame, error) {
		if len(looks) == 0 {
			cancel(context.Canceled)
			return Frame{}, ctx.Err()
		}
		look := looks[0]
		looks = looks[1:]
		return lines(1), look
	})
	return data.String(), words.String(), err
}

func TestAFirstLookThatFailsEndsIt(t *testing.T) {
	out, talk, err := repeat(t, errDown, nil)
	require.ErrorIs(t, err, errDown)
	assert.Empty(t, out+talk)
}

func TestALaterLookThatFailsIsToldOnceAndLookingGoesOn(t *testing.T) {
	out, talk, err := repeat(t, nil, errDown, errors.New("down in other words"), nil, nil, errDown, nil)
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, "line\nline\nline\nline\n", out)
	assert.Equal(t, "note\ndown; polling continues\nnote\ndown; polling continues\nnote\n", talk)
}
