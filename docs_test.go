package fairsem_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemhttp"
	"github.com/fairsem/fairsem/fairsemnet"
	"github.com/fairsem/fairsem/fairsemtest"
	"github.com/fairsem/fairsem/internal/protocol"
)

// goPages are the pages whose Go code is checked here: each block is part of a declaration that is compiled and run. A
// comment before the block names the declarations.
var goPages = []string{"docs/go.md", "docs/composing.md", "docs/integrations.md", "docs/metrics.md", "docs/tenants.md", "docs/fencing.md"}

func TestGoCodeOfTheDocsIsCodeThatIsRun(t *testing.T) {
	t.Parallel()
	code := declarations(t, ".", "fairsemtest", "fairsemhttp", "fairsemasynq", "fairsemgrpc", "fairsemnet", "fairsemotel", "fairsemotel/otlp", "fairsempgx", "fairsemprom", "fairsemriver")
	for _, page := range goPages {
		text := readFile(t, page)
		blocks := regexp.MustCompile("(?s)<!-- go: ([^\n]+) -->\n```go\n(.*?)```\n").FindAllStringSubmatch(text, -1)
		require.Equal(t, strings.Count(text, "```go\n"), len(blocks), "%s: each block of Go has a comment that names its source", page)
		for _, block := range blocks {
			parts := strings.Split(strings.TrimSuffix(block[2], "\n"), "\n\n")
			for _, name := range strings.Fields(block[1]) {
				require.Contains(t, code, name, page)
				parts = without(parts, code[name])
			}
			assert.Empty(t, parts, "%s: not in %s", page, block[1])
		}
	}
}

// without returns the paragraphs that do not consist of whole lines of the code, whatever their indentation.
func without(paragraphs []string, code string) (left []string) {
	for _, text := range paragraphs {
		found := false
		for indent := 0; indent < 5 && !found; indent++ {
			moved := strings.ReplaceAll("\n"+text, "\n", "\n"+strings.Repeat("\t", indent))
			found = strings.Contains("\n"+code+"\n", moved+"\n")
		}
		if !found {
			left = append(left, text)
		}
	}
	return left
}

// declarations returns the source of each function and type in the test files of packages, by name. In packages other than the
// first, the name begins with the directory.
func declarations(t *testing.T, dirs ...string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		require.NoError(t, err)
		for _, file := range files {
			source := readFile(t, file)
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, file, source, parser.SkipObjectResolution)
			require.NoError(t, err)
			for _, d := range parsed.Decls {
				name := path.Join(filepath.ToSlash(dir), nameOf(d))
				all[name] = source[set.Position(d.Pos()).Offset:set.Position(d.End()).Offset]
			}
		}
	}
	return all
}

// nameOf returns the name of a function or a type, or Type.Method, or "" if it is neither.
func nameOf(d ast.Decl) string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return d.Name.Name
		}
		receiver := d.Recv.List[0].Type
		if star, ok := receiver.(*ast.StarExpr); ok {
			receiver = star.X
		}
		if of, ok := receiver.(*ast.Ident); ok {
			return of.Name + "." + d.Name.Name
		}
	case *ast.GenDecl:
		if named, ok := d.Specs[0].(*ast.TypeSpec); ok {
			return named.Name.Name
		}
	}
	return ""
}

// The index must contain every example, and only examples that exist.
func TestIndexOfTheDocsHasEveryExample(t *testing.T) {
	t.Parallel()
	var indexed, exist []string
	for _, row := range regexp.MustCompile("(?m)^\\| \\[`(Example\\w*)`\\]\\(\\.\\./([^)]+)\\) \\|").FindAllStringSubmatch(readFile(t, "docs/go.md"), -1) {
		indexed = append(indexed, row[2]+" "+row[1])
	}
	eachFile(t, func(file string) {
		if !strings.HasSuffix(file, "_test.go") {
			return
		}
		for _, found := range regexp.MustCompile(`(?m)^func (Example\w*)\(\)`).FindAllStringSubmatch(readFile(t, file), -1) {
			exist = append(exist, file+" "+found[1])
		}
	})
	assert.ElementsMatch(t, exist, indexed)
}

func TestLinksOfTheDocsExist(t *testing.T) {
	t.Parallel()
	seen := 0
	eachFile(t, func(file string) {
		if path.Ext(file) != ".md" && file != "llms.txt" {
			return
		}
		for _, link := range links(readFile(t, file)) {
			target, anchor, _ := strings.Cut(link, "#")
			to := path.Join(path.Dir(file), target)
			if target == "" {
				to = file
			}
			seen++
			if _, err := os.Stat(to); !assert.NoError(t, err, "%s links to %s", file, link) {
				continue
			}
			if anchor != "" {
				assert.Contains(t, anchors(readFile(t, to)), anchor, "%s links to %s", file, link)
			}
		}
	})
	assert.NotZero(t, seen)
}

var fenced = regexp.MustCompile("(?ms)^[ \t]*```.*?^[ \t]*```")

// links returns the links of a page that lead to files of this project.
func links(page string) (all []string) {
	for _, found := range regexp.MustCompile(`\]\(([^()\s]+)\)`).FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		if !strings.Contains(found[1], "://") && !strings.HasPrefix(found[1], "mailto:") {
			all = append(all, found[1])
		}
	}
	return all
}

// anchors returns the anchors of a page: its headings, in the form that code hosts use.
func anchors(page string) (all []string) {
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, heading[1]))
	}
	return all
}

// eachFile calls f with the path of each file of the project, from its top level, with slashes.
func eachFile(t *testing.T, f func(file string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := entry.Name() != "." && strings.HasPrefix(entry.Name(), ".")
		if entry.IsDir() && (hidden || entry.Name() == "node_modules") {
			return fs.SkipDir
		}
		if !entry.IsDir() {
			f(filepath.ToSlash(file))
		}
		return nil
	})
	require.NoError(t, err)
}

func readFile(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")))
}

// A reader who starts from llms.txt or from the index must find every page of docs, and the index from the README.
func TestEveryPageOfTheDocsIsInTheIndex(t *testing.T) {
	t.Parallel()
	const index = "docs/README.md"
	assert.Contains(t, links(readFile(t, "README.md")), index)
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	for _, page := range pages {
		page = filepath.ToSlash(page)
		assert.Contains(t, links(readFile(t, "llms.txt")), page, "llms.txt")
		if page != index {
			assert.Contains(t, links(readFile(t, index)), path.Base(page), index)
		}
	}
}

// Code in running text and in tables is not compiled, so its methods and fields could have other names today.
func TestMethodsThatTheDocsNameExist(t *testing.T) {
	t.Parallel()
	types := map[string]reflect.Type{
		"client": reflect.TypeFor[*fairsem.Client](), "permit": reflect.TypeFor[*fairsem.Permit](), "permits": reflect.TypeFor[*fairsem.Permits](), "mutex": reflect.TypeFor[*fairsem.Mutex](),
		"limiter": reflect.TypeFor[*fairsem.Limiter](), "decision": reflect.TypeFor[fairsem.Decision](), "Decision": reflect.TypeFor[fairsem.Decision](),
		"Inspector": reflect.TypeFor[*fairsem.Inspector](), "Ticket": reflect.TypeFor[fairsem.Ticket](),
		"Options": reflect.TypeFor[fairsem.Options](), "CallOptions": reflect.TypeFor[fairsem.CallOptions](),
		"Status": reflect.TypeFor[fairsem.Status](), "server": reflect.TypeFor[*fairsemtest.Server](),
	}
	named := regexp.MustCompile(`\b(\w+)\.([A-Z]\w*)`)
	seen := 0
	for _, page := range []string{"README.md", "llms.txt", "docs/go.md", "docs/composing.md", "docs/tenants.md", "docs/fencing.md", "docs/operations.md", "docs/comparison.md", "docs/faq.md", "docs/upgrading.md", "docs/migrating.md"} {
		text := readFile(t, page)
		if page == "docs/migrating.md" { // the first column is of another library
			text = regexp.MustCompile(`(?m)^\| [^|]*\|`).ReplaceAllString(text, "|")
		}
		for _, found := range named.FindAllStringSubmatch(text, -1) {
			if of := types[found[1]]; of != nil {
				seen++
				assert.True(t, has(of, found[2]), "%s: %s", page, found[0])
			}
		}
	}
	assert.Greater(t, seen, 100)
}

// Tenants, and the options of tenants and numbers, were missing.
func TestOverviewOfTheDocsHasEveryCallAndEveryOptionOfACall(t *testing.T) {
	t.Parallel()
	_, text, _ := strings.Cut(readFile(t, "docs/go.md"), "## All calls")
	text, _, _ = strings.Cut(text, "## All errors")
	code := strings.Join(regexp.MustCompile("`[^`]+`").FindAllString(text, -1), " ")
	for _, of := range []reflect.Type{
		reflect.TypeFor[*fairsem.Client](), reflect.TypeFor[*fairsem.Inspector](), reflect.TypeFor[*fairsem.Semaphore](), reflect.TypeFor[*fairsem.Mutex](),
		reflect.TypeFor[*fairsem.RWMutex](), reflect.TypeFor[*fairsem.Limiter](), reflect.TypeFor[*fairsem.Weighted](), reflect.TypeFor[*fairsem.Permit](),
	} {
		for i := range of.NumMethod() {
			if name := of.Method(i).Name; name != "Name" && name != "RRequest" { // the name of a handle; as Request
				assert.Regexp(t, `\b`+name+`\b`, code, of)
			}
		}
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[fairsem.CallOptions]()) {
		assert.Regexp(t, `\b`+field.Name+`\b`, code, "CallOptions")
	}
}

// Keys of tenants and numbers were missing, and one that is left behind when the others are deleted keeps numbers in use.
func TestDocsNameEveryKeyOfAName(t *testing.T) {
	t.Parallel()
	assert.Contains(t, readFile(t, "docs/upgrading.md"), "redis-cli DEL 'fairsem:{payments-api}:'{"+strings.Join(protocol.Kinds[:], ",")+"}")
	for _, page := range []string{"docs/operations.md", "docs/protocol.md"} {
		text := readFile(t, page)
		for _, kind := range protocol.Kinds {
			assert.Contains(t, text, "fairsem:{name}:"+kind, page)
		}
	}
	require.Len(t, protocol.Kinds, 10, "pages say how many these are")
	for _, page := range []string{"doc.go", "docs/protocol.md", "docs/security.md"} {
		assert.Contains(t, readFile(t, page), "up to ten keys", page)
	}
}

// There, Options are those of any package.
func TestOptionsThatThePageOnIntegrationsNamesExist(t *testing.T) {
	t.Parallel()
	text := regexp.MustCompile("(?s)```go\n.*?```").ReplaceAllString(readFile(t, "docs/integrations.md"), "") // code is compiled
	named := regexp.MustCompile(`\bOptions\.([A-Z]\w*)|\b(On[A-Z]\w*): `).FindAllStringSubmatch(text, -1)
	assert.Greater(t, len(named), 8)
	for _, found := range named {
		field := found[1] + found[2]
		assert.True(t, has(reflect.TypeFor[fairsem.Options](), field) || has(reflect.TypeFor[fairsemhttp.Options](), field) ||
			has(reflect.TypeFor[fairsemnet.Options](), field), found[0])
	}
}

// has reports whether a type has a method or a field.
func has(of reflect.Type, name string) bool {
	if _, method := of.MethodByName(name); method {
		return true
	}
	if of.Kind() == reflect.Pointer {
		return false // only its methods are exported
	}
	_, field := of.FieldByName(name)
	return field
}
