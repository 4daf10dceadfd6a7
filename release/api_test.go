package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "github.com/fairsem/fairsem" // go test does not remember a result for another API, except of the other modules: go test -count=1
	_ "github.com/fairsem/fairsem/fairsemhttp"
	_ "github.com/fairsem/fairsem/fairsemnet"
	_ "github.com/fairsem/fairsem/fairsemtest"
	_ "github.com/fairsem/fairsem/internal/fair"
	_ "github.com/fairsem/fairsem/internal/gate"
	_ "github.com/fairsem/fairsem/internal/held"
	_ "github.com/fairsem/fairsem/internal/jobs"
	_ "github.com/fairsem/fairsem/internal/labels"
)

func TestExportedAPIIsAsRecorded(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	apis, err := readAPIs(t.Context(), root)
	require.NoError(t, err)
	assert.Len(t, apis, len(apiPackages))
	for file, now := range apis {
		recorded, err := os.ReadFile(filepath.Join("api", file))
		require.NoError(t, err)
		if change := apiChange(file, strings.Split(string(recorded), "\n"), now); change != "" {
			t.Error(change)
		}
	}
}

// A module that users have may be older than the library, so what it imports of the library is a promise, also where users cannot.
func TestPackagesThatModulesForUsersImportAreRecorded(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	w, err := readWorkspace(t.Context(), in(root))
	require.NoError(t, err)
	for _, dir := range w.modules() {
		if dir == command {
			continue // it is built with the library that its go.mod requires
		}
		imports := does(t, in(filepath.Join(root, dir)), "go", "list", "-f", `{{join .Imports "\n"}}`, "./...")
		for line := range strings.Lines(imports) {
			if of, is := strings.CutPrefix(strings.TrimSpace(line), w.library+"/"); is {
				assert.Contains(t, apiPackages, of, "%s imports it", dir)
			}
		}
	}
}

func TestChangeOfTheAPINamesWhatBreaksCallersAndWhatIsNew(t *testing.T) {
	t.Parallel()
	files := tiny(func(files map[string]string) {
		files["tiny.go"] = `package tiny

import (
	"math/rand/v2"
	"time"
)

const Limit = 1

var Err error

type (
	Options struct {
		TTL    time.Duration
		hidden int
		Base
	}
	Base  struct{ list []int }
	Alias = Options
	Kind  int
	Seen  interface{ See(o Options); unseen() }
	Set[K comparable, V any] struct {
		*inner[K]
		Name string
	}
	inner[K comparable] struct {
		Keys []K
		Name K
		deep
	}
	deep          struct{ Depth int }
	Keys[K Kinds] = []K
	Kinds         interface{ ~int | ~string }
)

func (*inner[K]) Has(K) bool { return false }

func Pick(from *rand.Rand) {}

func (o *Options) Set(ttl time.Duration) error { o.TTL = ttl; o.hidden = 1; return nil }
func (Base) Of(kinds ...Kind) int              { return 0 }
func (Base) hide()                             {}

func New(f func(a int) (b error)) *Options { return nil }
func hidden()                              {}
`
		for _, dir := range apiPackages[1:] {
			files[dir+"/x.go"] = "package " + path.Base(dir) + "\n"
		}
	})
	apis, err := readAPIs(t.Context(), committed(t, files).dir)
	require.NoError(t, err)
	now := apis["tiny.txt"]
	assert.Equal(t, []string{
		"const Limit untyped int = 1",
		"func (*Options) Set(ttl time.Duration) error",
		"func (Base) Of(kinds ...Kind) int",
		"func (Options) Of(kinds ...Kind) int",
		"func (Set) Has(K) bool",
		"func New(f func(a int) (b error)) *Options",
		"func Pick(from *math/rand/v2.Rand)",
		"type Alias = Options",
		"type Base struct",
		"type Keys[K Kinds] = []K",
		"type Kind int",
		"type Kinds interface{~int | ~string}",
		"type Options struct",
		"type Options struct { Base }",
		"type Options struct { TTL time.Duration }",
		"type Seen interface{See(o Options); unseen()}",
		"type Set struct { Depth int }",
		"type Set struct { Keys []K }",
		"type Set struct { Name string }",
		"type Set[K comparable, V any] struct, comparable",
		"var Err error",
	}, now)

	assert.Empty(t, apiChange("tiny.txt", now, now))
	change := apiChange("tiny.txt", append([]string{"func Old()"}, now[1:]...), now)
	assert.Contains(t, change, "breaks callers unless only the name of a parameter changed:\n\t- func Old()\nnew:\n\t+ const Limit untyped int = 1\n")
	assert.Contains(t, change, "make api")
	assert.NotContains(t, apiChange("tiny.txt", now[1:], now), "breaks callers")
}

// apiChange says what is not as in a file of apiDir, "" if nothing is.
func apiChange(file string, recorded, now []string) string {
	gone, added := missing(recorded, now), missing(now, recorded)
	if len(gone)+len(added) == 0 {
		return ""
	}
	said := fmt.Sprintf("the exported API is not as recorded in %s/%s\n", apiDir, file)
	if len(gone) > 0 {
		said += "gone or changed, which breaks callers unless only the name of a parameter changed:\n\t- " + strings.Join(gone, "\n\t- ") + "\n"
	}
	if len(added) > 0 {
		said += "new:\n\t+ " + strings.Join(added, "\n\t+ ") + "\n"
	}
	return said + "If that is meant, run make api, commit the file and write the change into " + changelog + "."
}

// missing returns the lines of one list that another lacks.
func missing(of, in []string) []string {
	return slices.DeleteFunc(slices.Clone(of), func(line string) bool { return line == "" || slices.Contains(in, line) })
}
