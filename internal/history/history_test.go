package history

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadReturnsWhatWriteWrote(t *testing.T) {
	want := Grant{Process: "p", ID: "c:1", Weight: 2, Token: 3, Position: 4, AskedWall: 5,
		Tenant: "t", Share: 2, TenantLimit: 9, Numbered: true, Numbers: []int64{0, 3},
		Asked: 6, Granted: 7, Released: 8, Done: 9, Left: 10, Lost: true, Cancelled: true}
	var file bytes.Buffer
	require.NoError(t, NewWriter(&file).Write(want))
	got, err := Read(&file)
	require.NoError(t, err)
	assert.Equal(t, []Grant{want}, got)
}

func TestReadReturnsTheLastLineOfAnIDInTheOrderOfTheFirst(t *testing.T) {
	got := read(t, Grant{ID: "a", Granted: 1}, Grant{ID: "b", Granted: 2}, Grant{ID: "a", Granted: 1, Released: 3})
	assert.Equal(t, []Grant{{ID: "a", Granted: 1, Released: 3}, {ID: "b", Granted: 2}}, got)
}

func TestReadReturnsAllCallsThatWereNeverGranted(t *testing.T) {
	want := []Grant{{Process: "p", Cancelled: true, Asked: 1}, {Process: "q", Cancelled: true, Asked: 2}}
	assert.Equal(t, want, read(t, want...))
}

func TestReadSkipsAnUnfinishedLastLine(t *testing.T) {
	got, err := Read(strings.NewReader(`{"id":"a"}` + "\n" + `{"id":"b","gra`))
	require.NoError(t, err)
	assert.Equal(t, []Grant{{ID: "a"}}, got)
}

func TestLineThatIsNoGrantIsAnError(t *testing.T) {
	_, err := Read(strings.NewReader("{}\nnonsense\n{}\n"))
	assert.ErrorContains(t, err, "history: line 2: ")
}

func TestFailedReadIsAnError(t *testing.T) {
	broken := errors.New("broken")
	_, err := Read(io.MultiReader(strings.NewReader("{}\n"), iotest.ErrReader(broken)))
	assert.ErrorIs(t, err, broken)
}

func TestEveryLineIsOneWrite(t *testing.T) {
	var writes [][]byte
	w := NewWriter(writerFunc(func(p []byte) (int, error) {
		writes = append(writes, bytes.Clone(p))
		return len(p), nil
	}))
	require.NoError(t, w.Write(Grant{ID: "a"}))
	require.NoError(t, w.Write(Grant{ID: "b"}))
	require.Len(t, writes, 2)
	assert.True(t, bytes.HasSuffix(writes[0], []byte("}\n")))
}

func TestKilledProcessHoldsNothingAfterItsEnd(t *testing.T) {
	grants := []Grant{
		{Process: "dead", ID: "held", Granted: 1},
		{Process: "dead", ID: "released", Granted: 1, Released: 2},
		{Process: "dead", ID: "granted meanwhile", Granted: 6},
		{Process: "dead", ID: "never granted"},
		{Process: "alive", ID: "held too", Granted: 1},
	}
	Died(grants, "dead", 5)
	assert.Equal(t, []Grant{
		{Process: "dead", ID: "held", Granted: 1, Released: 5, Lost: true},
		{Process: "dead", ID: "released", Granted: 1, Released: 2},
		{Process: "dead", ID: "granted meanwhile", Granted: 6, Released: 6, Lost: true},
		{Process: "dead", ID: "never granted"},
		{Process: "alive", ID: "held too", Granted: 1},
	}, grants)
}

// The monotonic clock of package time differs between processes. With it, no check across processes would be valid.
func TestTwoProcessesReadTheSameClock(t *testing.T) {
	if os.Getenv("HISTORY_TEST_CHILD") != "" {
		fmt.Printf("now=%d\n", Now())
		os.Exit(0)
	}
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), "HISTORY_TEST_CHILD=1")
	before := Now()
	out, err := child.Output()
	after := Now()
	require.NoError(t, err)
	_, digits, found := strings.Cut(strings.TrimSpace(string(out)), "now=")
	require.True(t, found, "%q", out)
	between, err := strconv.ParseInt(digits, 10, 64)
	require.NoError(t, err)
	assert.Less(t, before, between)
	assert.Less(t, between, after)
	assert.Less(t, after-before, time.Minute.Nanoseconds())
}

func read(t *testing.T, grants ...Grant) []Grant {
	t.Helper()
	var file bytes.Buffer
	w := NewWriter(&file)
	for _, g := range grants {
		require.NoError(t, w.Write(g))
	}
	got, err := Read(&file)
	require.NoError(t, err)
	return got
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
