package render

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairsem/fairsem"
)

func TestARateIsSoManyInATimeAndInAPauseTheDeclaredOne(t *testing.T) {
	s := fairsem.Status{Limit: 3, Declared: 5, Window: time.Minute, Pinned: true}
	assert.Equal(t, []string{"pinned", "rate 3/1m"}, Notes(s))
	s.Limit = 0
	assert.Equal(t, []string{"paused", "rate 5/1m"}, Notes(s))
}

func TestOtherPrefixesAreEscapedForTerminals(t *testing.T) {
	t.Parallel()
	assert.Equal(t, `there are semaphores with the prefix "a\x1b[2J" or "`+strings.Repeat("b", 59)+`…": select it with --prefix`,
		Elsewhere([]string{"a\x1b[2J", strings.Repeat("b", 100)}))
}
