package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// apiDir has a file for each package that others import, with its API, which a release promises to keep.
const apiDir = "release/api"

// apiPackages are the packages that others import, as folders. Those in internal are not for users, but modules of this repository import
// them, and a user may have such a module at an older version than the library.
var apiPackages = []string{
	".", "fairsemtest", "fairsemnet", "fairsemhttp", "fairsemasynq", "fairsemgrpc", "fairsemotel", "fairsempgx", "fairsemprom", "fairsemriver",
	"internal/fair", "internal/gate", "internal/held", "internal/jobs", "internal/labels",
}

// writeAPI makes the files of apiDir anew.
func writeAPI(ctx context.Context, root string) error {
	apis, err := readAPIs(ctx, root)
	if err != nil {
		return err
	}
	for name, lines := range apis {
		if err := os.WriteFile(filepath.Join(root, filepath.FromSlash(apiDir), name), []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// readAPIs returns the API of each package as it is, by the name of its file.
func readAPIs(ctx context.Context, root string) (map[string][]string, error) {
	exports, err := exportsOf(ctx, root)
	if err != nil {
		return nil, err
	}
	w, err := readWorkspace(ctx, in(root))
	if err != nil {
		return nil, err
	}
	from := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	apis := make(map[string][]string)
	for _, dir := range apiPackages {
		pkg, err := from.Import(path.Join(w.library, dir))
		if err != nil {
			return nil, err
		}
		apis[pkg.Name()+".txt"] = apiOf(pkg, w.library)
	}
	return apis, nil
}

// exportsOf returns the files of the compiler that describe the packages and all that they import.
func exportsOf(ctx context.Context, root string) (map[string]string, error) {
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Export"}
	for _, dir := range apiPackages {
		args = append(args, "./"+dir)
	}
	list, err := in(root).run(ctx, "go", args...)
	if err != nil {
		return nil, err
	}
	exports := make(map[string]string)
	for decoder := json.NewDecoder(strings.NewReader(list)); ; {
		var p struct{ ImportPath, Export string }
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return exports, nil
		} else if err != nil {
			return nil, err
		}
		exports[p.ImportPath] = p.Export
	}
}

// apiOf lists the declarations that callers of a package can use, a line for each. A line that goes or changes breaks callers, unless only
// the name of a parameter changed; a new line breaks nothing. So an interface, which callers may implement, is one line with all its
// methods. Packages outside the library have their import path there, for the name stays the same from v9 to v10.
func apiOf(pkg *types.Package, library string) (lines []string) {
	q := func(other *types.Package) string {
		switch {
		case other == pkg:
			return ""
		case other.Path() == library || strings.HasPrefix(other.Path(), library+"/"):
			return other.Name()
		}
		return other.Path()
	}
	for _, name := range pkg.Scope().Names() {
		object := pkg.Scope().Lookup(name)
		if !object.Exported() {
			continue
		}
		switch object := object.(type) {
		case *types.Const:
			lines = append(lines, types.ObjectString(object, q)+" = "+object.Val().ExactString())
		case *types.TypeName:
			lines = append(lines, typeLines(object, q)...)
		default:
			lines = append(lines, types.ObjectString(object, q))
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// typeLines are those of a type with its fields and methods, embedded ones too.
func typeLines(name *types.TypeName, q types.Qualifier) (lines []string) {
	head := "type " + types.TypeString(name.Type(), q) // with type parameters and their constraints
	if name.IsAlias() {
		return []string{head + " = " + types.TypeString(types.Unalias(name.Type()), q)}
	}
	fields, isStruct := name.Type().Underlying().(*types.Struct)
	switch {
	case isStruct && types.Comparable(name.Type()):
		lines = append(lines, head+" struct, comparable")
	case isStruct:
		lines = append(lines, head+" struct")
	default:
		lines = append(lines, head+" "+types.TypeString(name.Type().Underlying(), q))
	}
	if isStruct {
		lines = append(lines, fieldLines(name, fields, q)...)
	}
	if types.IsInterface(name.Type()) {
		return lines
	}
	ofValue, ofPointer := types.NewMethodSet(name.Type()), types.NewMethodSet(types.NewPointer(name.Type()))
	for method := range ofPointer.Methods() {
		receiver := "*" + name.Name()
		if ofValue.Lookup(name.Pkg(), method.Obj().Name()) != nil {
			receiver = name.Name()
		}
		if method.Obj().Exported() {
			lines = append(lines, fmt.Sprintf("func (%s) %s%s", receiver, method.Obj().Name(), strings.TrimPrefix(types.TypeString(method.Type(), q), "func")))
		}
	}
	return lines
}

// fieldLines are those of the fields of a struct that is the type, or that is embedded in it.
func fieldLines(name *types.TypeName, of *types.Struct, q types.Qualifier) (lines []string) {
	for field := range of.Fields() {
		if found, _, _ := types.LookupFieldOrMethod(name.Type(), true, name.Pkg(), field.Name()); found != field {
			continue // an outer field has the same name
		}
		said := types.TypeString(field.Type(), q)
		switch {
		case field.Embedded() && field.Exported():
			lines = append(lines, fmt.Sprintf("type %s struct { %s }", name.Name(), said))
		case field.Exported():
			lines = append(lines, fmt.Sprintf("type %s struct { %s %s }", name.Name(), field.Name(), said))
		case field.Embedded():
			inner := field.Type()
			if pointer, is := inner.Underlying().(*types.Pointer); is {
				inner = pointer.Elem()
			}
			if inner, is := inner.Underlying().(*types.Struct); is {
				lines = append(lines, fieldLines(name, inner, q)...)
			}
		}
	}
	return lines
}
