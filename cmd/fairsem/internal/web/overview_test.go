package web

import (
	"html/template"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairsem/fairsem"
)

func TestTheWindowOfARateIsWrittenWithoutZeros(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "per 1m", newGauge(fairsem.Status{Window: time.Minute}).Per)
}

func TestABarIsFullWhereNothingCanBeGrantedAndPausedWherePaused(t *testing.T) {
	t.Parallel()
	p := &Page{templates: template.Must(template.ParseFS(files, "templates/*.html"))}
	for _, c := range []struct {
		status fairsem.Status
		full   bool
		tag    string
	}{
		{fairsem.Status{Used: 1, Limit: 2}, false, ""},
		{fairsem.Status{Used: 2, Limit: 2}, true, ""},
		{fairsem.Status{Used: 3, Limit: 2, Pinned: true}, true, "pinned"},
		{fairsem.Status{Used: 1, Pinned: true}, true, "paused"},
		{fairsem.Status{Used: 1, Exists: true}, true, ""}, // no process declares a limit any more
	} {
		drawn := string(p.render("gauge", newGauge(c.status)))
		assert.Equal(t, c.full, strings.Contains(drawn, `class="gauge full"`), drawn)
		for _, tag := range []string{"pinned", "paused"} {
			assert.Equal(t, tag == c.tag, strings.Contains(drawn, ">"+tag+"</span>"), drawn)
		}
	}
}

// Redis forgets the label of a process that has been silent for long.
func TestATicketWithoutALabelCanStillBeSeen(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "?", newTicket("gate", fairsem.Ticket{ID: "a:1"}, time.Now(), false, false).Label)
}

func TestNoSemaphoreIsSaidToBeInUseOnlyIfAllCanBeRead(t *testing.T) {
	t.Parallel()
	p := &Page{templates: template.Must(template.ParseFS(files, "templates/*.html"))}
	const none = "No semaphore is in use"
	assert.Contains(t, string(p.render("index-live", overview{Connected: true})), none)
	drawn := string(p.render("index-live", overview{Connected: true, Unreadable: []string{"why"}}))
	assert.NotContains(t, drawn, none)
	assert.Contains(t, drawn, "No semaphore that can be read is in use.")
}

// A browser leaves out blanks at the ends, and shows several as one.
func TestNamesThatDifferInBlanksLookDifferent(t *testing.T) {
	for name, want := range map[string]string{
		"a b": "a b", " a b": `\x20a b`, "a b ": `a b\x20`, "a  b": `a \x20b`, "a   b": `a \x20\x20b`, " ": `\x20`, "  ": `\x20\x20`, `a\x20`: `a\\x20`,
	} {
		assert.Equal(t, want, title(name))
	}
	blanks := strings.Repeat(" ", longText-10)
	assert.NotEqual(t, title("job"+blanks+"alpha"), title("job"+blanks+"beta"))
}
