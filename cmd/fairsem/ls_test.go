package main

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
)

// A single name on a primary that does not answer was said to be found at once without a *.
func TestALongScanIsExplainedAndOnlyThat(t *testing.T) {
	t.Parallel()
	for pattern, scans := range map[string]bool{"": true, "n*": true, "n": false} {
		synctest.Test(t, func(t *testing.T) {
			var notes bytes.Buffer
			cmd := &cobra.Command{}
			cmd.SetErr(&notes)
			stop := (&lsOptions{pattern: pattern}).explain(cmd)
			time.Sleep(longScan + time.Second)
			stop()
			assert.Equal(t, scans, notes.Len() > 0, "%q: %s", pattern, &notes)
		})
	}
}
