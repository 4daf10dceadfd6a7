package fairsem_test

import (
	"cmp"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/fairsem/fairsem"

// mapped returns the packages of the map in CONTRIBUTING.md, from top to bottom, as directories. In each row the first is a
// whole path, and the others are in the same parent directory.
func mapped(t *testing.T) (dirs []string) {
	t.Helper()
	_, after, found := strings.Cut(readFile(t, "CONTRIBUTING.md"), "| package |")
	require.True(t, found)
	table, _, found := strings.Cut(after, "\n\n")
	require.True(t, found)
	dirs = directories(table)
	dirs[slices.Index(dirs, "fairsem")] = "." // the root
	return dirs
}

// directories returns those in the first column of a table.
func directories(table string) (dirs []string) {
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+) \\|").FindAllStringSubmatch(table, -1) {
		parent := ""
		for i, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			if i == 0 {
				parent = path.Dir(name[1])
			}
			dirs = append(dirs, path.Join(parent, path.Base(name[1])))
		}
	}
	return dirs
}

// imports returns the packages of the project that each package imports, as directories. Tests do not count.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	all := make(map[string][]string)
	eachFile(t, func(file string) {
		if path.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "testdata/") {
			return
		}
		all[path.Dir(file)] = append(all[path.Dir(file)], importsOf(t, file)...)
	})
	return all
}

// importsOf returns the packages of the project that a file imports.
func importsOf(t *testing.T, file string) (ours []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	require.NoError(t, err)
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		require.NoError(t, err)
		if rest, found := strings.CutPrefix(imported+"/", module+"/"); found {
			ours = append(ours, path.Clean("./"+rest))
		}
	}
	return ours
}

func TestEachPackageWhoseTestsNeedRealServersSaysWhy(t *testing.T) {
	t.Parallel()
	_, after, found := strings.Cut(readFile(t, "CONTRIBUTING.md"), "| tests in |")
	require.True(t, found)
	table, _, _ := strings.Cut(after, "\n\n")
	table = strings.Replace(table, "`fairsem` (the root)", "`.`", 1)
	explained := directories(table)
	var real []string
	eachFile(t, func(file string) {
		if strings.HasSuffix(file, "_test.go") && !strings.HasPrefix(file, "testdata/") && slices.ContainsFunc(importsOf(t, file), func(dir string) bool {
			return slices.Contains([]string{"internal/redistest", "internal/worldtest", "internal/pgtest"}, dir)
		}) {
			real = append(real, path.Dir(file))
		}
	})
	slices.Sort(real)
	assert.ElementsMatch(t, slices.Compact(real), explained)
}

func TestMapOfTheCodeHasEveryPackageAndImportsPointDown(t *testing.T) {
	t.Parallel()
	dirs := mapped(t)
	for dir, imported := range imports(t) {
		at := slices.Index(dirs, dir)
		if !assert.NotEqual(t, -1, at, "%s is not in the map of CONTRIBUTING.md", dir) {
			continue
		}
		for _, below := range imported {
			assert.Greater(t, slices.Index(dirs, below), at, "%s imports %s, which is not below it in the map of CONTRIBUTING.md", dir, below)
		}
	}
	for _, dir := range dirs {
		found, err := filepath.Glob(filepath.Join(filepath.FromSlash(dir), "*.go"))
		require.NoError(t, err)
		assert.NotEmpty(t, found, "%s is in the map of CONTRIBUTING.md", dir)
	}
}

func TestMapOfTheCodeHasEveryFileOfTheLibrary(t *testing.T) {
	t.Parallel()
	_, after, found := strings.Cut(readFile(t, "CONTRIBUTING.md"), "| files |")
	require.True(t, found)
	table, _, found := strings.Cut(after, "\n\n")
	require.True(t, found)
	var listed []string
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \|`).FindAllStringSubmatch(table, -1) {
		for _, file := range regexp.MustCompile("`(\\w+\\.go)`").FindAllStringSubmatch(row[1], -1) {
			listed = append(listed, file[1])
		}
	}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	files = slices.DeleteFunc(files, func(file string) bool { return strings.HasSuffix(file, "_test.go") || file == "doc.go" })
	assert.ElementsMatch(t, files, listed)
}

// A function comes after the file that has it, or just before it in parentheses.
func TestWayOfACallNamesFunctionsWhereTheyAre(t *testing.T) {
	t.Parallel()
	_, after, found := strings.Cut(readFile(t, "CONTRIBUTING.md"), "The way of a call")
	require.True(t, found)
	way, _, found := strings.Cut(after, "One more ARGV")
	require.True(t, found)
	const name = "`(\\w+)`"                  // of a function
	const file = "`([a-z_/]+\\.(?:go|lua))`" // with its path
	last, named := "", 0
	for _, m := range regexp.MustCompile(name+`(?:\s\(`+file+`\))?|`+file).FindAllStringSubmatch(way, -1) {
		if m[3] != "" {
			last = m[3]
			require.FileExists(t, last)
		} else if in := cmp.Or(m[2], last); in != "" { // in none is that of users
			named++
			defined := regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + m[1] + `[\[(]`).MatchString(readFile(t, in))
			assert.True(t, defined, "%s has no %s", in, m[1])
		}
	}
	assert.Greater(t, named, 15)
}

// uses returns which files of the library use declarations of others, methods included.
func uses(t *testing.T) map[string][]string {
	t.Helper()
	set := token.NewFileSet()
	var files []*ast.File
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, 0)
		require.NoError(t, err)
		files = append(files, file)
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	conf := types.Config{Importer: noPackages{}, Error: func(error) {}} // imports do not matter here
	library, _ := conf.Check(module, set, files, info)
	all := make(map[string][]string)
	for use, object := range info.Uses {
		field, isVar := object.(*types.Var)
		if object.Pkg() != library || isVar && field.IsField() || object.Parent() != library.Scope() && !isMethod(object) {
			continue
		}
		from, to := set.Position(use.Pos()).Filename, set.Position(object.Pos()).Filename
		if from != to && !slices.Contains(all[from], to) {
			all[from] = append(all[from], to)
		}
	}
	return all
}

type noPackages struct{}

func (noPackages) Import(string) (*types.Package, error) { return nil, errors.New("not needed") }

func isMethod(object types.Object) bool {
	_, is := object.(*types.Func)
	return is
}

// A file that is in no large cycle can be read after those that it uses, and changed without the others.
func TestFilesOfTheLibraryFormNoLargeCycle(t *testing.T) {
	t.Parallel()
	all := uses(t)
	require.Greater(t, len(all), 15)
	reach := make(map[string]map[string]bool) // the files that a file uses, directly or not
	var follow func(from, file string)
	follow = func(from, file string) {
		for _, next := range all[file] {
			if !reach[from][next] {
				reach[from][next] = true
				follow(from, next)
			}
		}
	}
	for file := range all {
		reach[file] = make(map[string]bool)
		follow(file, file)
	}
	for file := range all {
		cycle := []string{file}
		for other := range reach[file] {
			if other != file && reach[other][file] {
				cycle = append(cycle, other)
			}
		}
		slices.Sort(cycle)
		assert.LessOrEqual(t, len(cycle), 4, "%v use each other", cycle)
	}
}
