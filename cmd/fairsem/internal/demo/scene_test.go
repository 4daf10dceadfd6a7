package demo

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairsem/fairsem"
)

func TestHoldersKeepTheirUnitsUntilTheyGo(t *testing.T) {
	t.Parallel()
	one, two, three, four := ticket(1, 1), ticket(2, 1), ticket(3, 1), ticket(4, 2)
	s, _ := sceneOf(moment([]fairsem.Ticket{one, two, three}, nil))
	assert.Equal(t, [Limit]string{"1", "2", "3"}, s.slots)
	s.update(moment([]fairsem.Ticket{two, three}, nil), noon)
	assert.Equal(t, [Limit]string{"", "2", "3"}, s.slots, "the others stay")
	s.update(moment([]fairsem.Ticket{two}, nil), noon)
	s.update(moment([]fairsem.Ticket{two, four}, nil), noon)
	assert.Equal(t, [Limit]string{"2", "4", "4"}, s.slots, "two units of one holder are side by side")
}

func TestMoreHoldersThanUnitsAreDrawn(t *testing.T) {
	t.Parallel()
	s, now := sceneOf(moment([]fairsem.Ticket{ticket(1, 2), ticket(2, 2), ticket(3, 9), ticket(4, 1)}, nil))
	assert.Equal(t, [Limit]string{"1", "1", "2"}, s.slots)
	assert.Contains(t, seen(s, now), "14 of 3 units in use")
}

func TestALabelIsKeptWhenRedisForgetsIt(t *testing.T) {
	t.Parallel()
	nameless := ticket(1, 1)
	nameless.Label = ""
	s, now := sceneOf(moment(nil, []fairsem.Ticket{ticket(1, 1)}), moment([]fairsem.Ticket{nameless}, nil))
	assert.Contains(t, seen(s, now), "worker 1")
}
