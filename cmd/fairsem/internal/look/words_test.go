package look_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/look"
)

func TestARateIsSoManyInATimeAndInAPauseTheDeclaredOne(t *testing.T) {
	s := fairsem.Status{Limit: 3, Declared: 5, Window: time.Minute, Pinned: true}
	assert.Equal(t, []string{"pinned", "rate 3/1m"}, look.Notes(s))
	s.Limit = 0
	assert.Equal(t, []string{"paused", "rate 5/1m"}, look.Notes(s))
}
