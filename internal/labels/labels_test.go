package labels_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/labels"
)

// names returns Names of their labels.
func names(t *testing.T, allow func(string) bool, most int) *labels.Names[string] {
	t.Helper()
	n, err := labels.NewNames(allow, most, func(label string) string { return label })
	require.NoError(t, err)
	return n
}

func TestNamesBeyondTheMostAreOther(t *testing.T) {
	t.Parallel()
	n := names(t, nil, 2)
	for range 2 {
		assert.Equal(t, "a", n.Of("a"))
		assert.Equal(t, "b", n.Of("b"))
		assert.Equal(t, "other", n.Of("c"))
	}
}

func TestThousandNamesHaveALabelUnlessAnotherNumberIsSet(t *testing.T) {
	t.Parallel()
	n := names(t, nil, 0)
	for i := range 1000 {
		name := fmt.Sprint(i)
		require.Equal(t, name, n.Of(name))
	}
	assert.Equal(t, "other", n.Of("1000"))
	assert.Equal(t, "999", n.Of("999"))
}

func TestNamesThatAreNotAllowedAreOtherAndDoNotCount(t *testing.T) {
	t.Parallel()
	n := names(t, func(name string) bool { return strings.HasPrefix(name, "db/") }, 1)
	assert.Equal(t, "other", n.Of("user/1"))
	assert.Equal(t, "db/orders", n.Of("db/orders"))
	assert.Equal(t, "other", n.Of("db/users"))
}

// A label that is not UTF-8 makes Prometheus refuse all of a process.
func TestLabelOfANameIsUTF8AndOtherwiseTheName(t *testing.T) {
	t.Parallel()
	n := names(t, nil, 0)
	assert.Equal(t, `not\xff\xfeutf8 é`, n.Of("not\xff\xfeutf8 é"))
	assert.Equal(t, "a \"b\"\n\x00�", n.Of("a \"b\"\n\x00�"))
	assert.Equal(t, `a\\xff`, n.Of(`a\xff`), "not the same as that of a byte")
	assert.Equal(t, `\\\xff`, n.Of("\\\xff"))
	assert.Equal(t, `domain\user`, n.Of(`domain\user`))
}

// Of two names with one label /metrics of fairsem serve silently left one out, and programs added them up.
func TestNoTwoNamesHaveOneLabel(t *testing.T) {
	t.Parallel()
	parts := []string{"", `\`, `\\`, "xff", "x", "ff", `\xff`, "\xff", "\xfe", "\u200b", `u200b`, "\x80", "\x1b", "\ufffd", "é"}
	taken := make(map[string]string) // by their labels
	for _, a := range parts {
		for _, b := range parts {
			for _, c := range parts {
				for _, d := range parts {
					name := a + b + c + d
					of := labels.Text(name)
					assert.True(t, utf8.ValidString(of))
					if other, ok := taken[of]; ok && other != name {
						t.Fatalf("%q and %q have the label %q", name, other, of)
					}
					taken[of] = name
				}
			}
		}
	}
}

func TestNegativeNumberOfNamesIsRefused(t *testing.T) {
	t.Parallel()
	_, err := labels.NewNames(nil, -1, func(string) int { return 0 })
	require.ErrorIs(t, err, fairsem.ErrInvalid)
	assert.ErrorContains(t, err, "MaxNames is -1; give at least 1, or 0 for the default")
}

// Between the search for a name and its addition other goroutines may add names. Here allow does.
func TestNamesThatAreAddedMeanwhileCount(t *testing.T) {
	t.Parallel()
	var n *labels.Names[*string]
	meanwhile := ""
	var added *string
	allow := func(string) bool {
		if name := meanwhile; name != "" {
			meanwhile = ""
			added = n.Of(name)
		}
		return true
	}
	n, err := labels.NewNames(allow, 2, func(label string) *string { return &label })
	require.NoError(t, err)
	meanwhile = "a"
	value := n.Of("a")
	assert.Same(t, added, value, "one value for each name")
	meanwhile = "b"
	assert.Equal(t, "other", *n.Of("c"), "there are two")
}

// Errors of the library, wrapped and joined as it does.
func TestReasonOfAnErrorIsTheOneToActOn(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"limit_reached":     fmt.Errorf("acquire: %w", &fairsem.WaitError{}),
		"queue_full":        fmt.Errorf("acquire: %w", fairsem.ErrQueueFull),
		"unavailable":       fmt.Errorf("%w: %w", fairsem.ErrUnavailable, errors.Join(context.DeadlineExceeded, fairsem.ErrNotAcquired)),
		"deadline_exceeded": fmt.Errorf("acquire: %w", context.DeadlineExceeded),
		"canceled":          context.Canceled,
		"exceeds_limit":     fairsem.ErrExceedsLimit,
		"closed":            fairsem.ErrClosed,
		"evicted":           fairsem.ErrEvicted,
		"other":             errors.New("NOPERM"),
	} {
		assert.Equal(t, want, labels.NotAcquired(err))
	}
	assert.Equal(t, labels.Evicted, labels.Lost(fmt.Errorf("%w: %w", fairsem.ErrLost, fairsem.ErrEvicted)))
	assert.Equal(t, labels.Expired, labels.Lost(fairsem.ErrLost))
}

func TestEachWayToLearnOfAGrantHasALabel(t *testing.T) {
	t.Parallel()
	var got []string
	for _, by := range []fairsem.GrantedBy{fairsem.GrantedAtOnce, fairsem.GrantedByMessage, fairsem.GrantedByReply, fairsem.GrantedByRefresh} {
		got = append(got, labels.Granted(by))
	}
	assert.Equal(t, labels.Grants(), got)
	assert.Equal(t, "other", labels.Granted("something new"))
}
