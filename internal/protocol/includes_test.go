package protocol

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// The files of a script see each other's locals. A file that others include lists at its top how it uses them.

// builtIn are the globals of Redis and Lua that scripts use. Redis refuses every other global.
var builtIn = []string{"ARGV", "KEYS", "ipairs", "math", "pairs", "redis", "string", "table", "tonumber", "type", "unpack"}

// scope is how a piece of Lua depends on the code around it.
type scope struct {
	uses    []string // names that it reads or sets and does not declare
	sets    []string // those of them that it sets
	locals  []string // the names that it declares for the code after it
	include []string // files that it includes
}

func scopeOf(t *testing.T, text string) scope {
	t.Helper()
	chunk, err := parse.Parse(strings.NewReader(text), "scope")
	require.NoError(t, err)
	proto, err := lua.Compile(chunk, "scope")
	require.NoError(t, err)
	used, set := make(map[string]bool), make(map[string]bool)
	globals(proto, used, set)
	s := scope{uses: slices.Sorted(maps.Keys(used)), sets: slices.Sorted(maps.Keys(set))}
	for _, statement := range chunk {
		if local, is := statement.(*ast.LocalAssignStmt); is {
			s.locals = append(s.locals, local.Names...)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^-- include (.*)$`).FindAllStringSubmatch(text, -1) {
		s.include = append(s.include, m[1])
	}
	return s
}

// globals collects the names that compiled Lua does not find among its locals.
func globals(f *lua.FunctionProto, used, set map[string]bool) {
	for _, code := range f.Code {
		op, constant := int(code>>26), code&0x3ffff
		if op != lua.OP_GETGLOBAL && op != lua.OP_SETGLOBAL {
			continue
		}
		if name := f.Constants[constant].String(); !slices.Contains(builtIn, name) {
			used[name] = true
			if op == lua.OP_SETGLOBAL {
				set[name] = true
			}
		}
	}
	for _, inner := range f.FunctionPrototypes {
		globals(inner, used, set)
	}
}

// listed returns a list of names at the top of a file.
func listed(text, label string) string {
	list := regexp.MustCompile(`(?m)^-- ` + label + `: +([\w, ]+(?:\n--  +[\w, ]+)*)$`).FindString(text)
	return strings.Join(regexp.MustCompile(`\w+`).FindAllString(strings.TrimPrefix(list, "-- "+label), -1), ", ")
}

func sources(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../scripts/*.lua")
	require.NoError(t, err)
	all := make(map[string]string)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all[filepath.Base(file)] = string(text)
	}
	return all
}

// A file that others include lists the names that it needs from the files before it, those that it provides for the files after it,
// and the variables of other files that it changes. Files for full scripts omit what semaphore.lua declares, which the
// plain scripts do not include; all omit what constants.lua and states.lua declare.
func TestIncludedFilesSayWhatTheyNeedProvideAndChange(t *testing.T) {
	t.Parallel()
	texts, scopes, used := sources(t), make(map[string]scope), make(map[string]bool)
	for file, text := range texts {
		scopes[file] = scopeOf(t, text)
		for _, name := range scopes[file].uses {
			used[name] = true
		}
	}
	constants := slices.Concat(scopes["constants.lua"].locals, scopes["states.lua"].locals)
	shared := scopes["semaphore.lua"].locals
	for _, name := range slices.Concat(constants, shared) {
		assert.True(t, used[name], "%s is declared for all, but no other file uses it", name)
	}
	for file, s := range scopes {
		isVerb := slices.ContainsFunc(slices.Concat(Scripts, PlainScripts, AuditScripts), func(s *Script) bool { return s.Verb+".lua" == file })
		if isVerb || file == "semaphore.lua" {
			continue
		}
		for label, names := range map[string][]string{
			"needs": slices.DeleteFunc(s.uses, func(name string) bool {
				return slices.Contains(constants, name) || !strings.HasPrefix(file, "plain") && slices.Contains(shared, name)
			}),
			"provides": slices.DeleteFunc(s.locals, func(name string) bool { return !used[name] }),
			"changes":  s.sets,
		} {
			slices.Sort(names)
			assert.Equal(t, strings.Join(names, ", "), listed(texts[file], label), "%s %s", file, label)
		}
	}
}

// A name that no file declares is an error only when it is reached. A name that two files declare is two variables.
func TestScriptsDeclareEveryNameOnce(t *testing.T) {
	t.Parallel()
	included, texts := make(map[string]bool), sources(t)
	for _, s := range slices.Concat(Scripts, PlainScripts, AuditScripts) {
		joined := scopeOf(t, s.Text())
		assert.Empty(t, joined.uses, "%s does not declare it", s.Verb)
		slices.Sort(joined.locals)
		assert.Equal(t, slices.Compact(slices.Clone(joined.locals)), joined.locals, s.Verb)
		included[s.Verb+".lua"] = true
		files := scopeOf(t, texts[s.Verb+".lua"]).include
		for len(files) > 0 {
			included[files[0]] = true
			files = append(files[1:], scopeOf(t, texts[files[0]]).include...)
		}
	}
	assert.Equal(t, slices.Sorted(maps.Keys(texts)), slices.Sorted(maps.Keys(included)), "every file is a verb or a part of one")
}
