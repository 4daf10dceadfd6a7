package fairsemtest_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemtest"
)

func TestJobStopsWhenItsProcessIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // here hours pass in milliseconds
		server := fairsemtest.NewServer(t)         // a Redis in memory
		client := server.Client(fairsem.Options{}) // each is another process
		job, err := client.Semaphore("nightly", 1)
		if err != nil {
			t.Fatal(err)
		}
		err = job.Do(t.Context(), 1, func(ctx context.Context) error {
			server.Kill(client)
			<-ctx.Done() // nine seconds later, before anybody else gets in
			return nil
		})
		if !errors.Is(err, fairsem.ErrLost) {
			t.Error(err)
		}
	})
}

// The README's second piece of code is the test above, to the byte.
func TestReadmeExampleIsTheTestedExample(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(string(readme), -1)
	require.Len(t, blocks, 2, "blocks of Go in README.md")

	source, err := os.ReadFile("readme_test.go")
	require.NoError(t, err)
	_, after, _ := strings.Cut(string(source), "\nfunc Test")
	body, _, found := strings.Cut(after, "\n}\n")
	require.True(t, found)
	assert.Equal(t, "func Test"+body+"\n}\n", blocks[1][1])
}
