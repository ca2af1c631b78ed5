package gogen

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/dave/jennifer/jen"
)

// sqlcOutput is what we read of the code that sqlc made.
type sqlcOutput struct {
	structs map[string][]sqlcField
	basics  map[string]string // its types made of a basic one, such as an ENUM column's
}

// sqlcField is a field of a Params or Row struct.
type sqlcField struct {
	name string
	typ  sqlcType
}

// sqlcType is the type of a column as sqlc sees it.
type sqlcType struct {
	importPath string // of a type of another package; "" for others
	name       string // "int64", "Time", "NullString", "[]byte"; "" for what we don't know
}

// readSQLC parses sqlc's files. What does not parse is left out: what is asked
// for and isn't there is reported where it is asked for.
func readSQLC(files map[string][]byte) sqlcOutput {
	out := sqlcOutput{structs: map[string][]sqlcField{}, basics: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, files[name], parser.SkipObjectResolution)
		if err != nil {
			continue
		}
		imported := importsOf(parsed)
		for _, d := range parsed.Decls {
			gen, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range gen.Specs {
				if t, ok := s.(*ast.TypeSpec); ok {
					out.add(t, imported)
				}
			}
		}
	}
	return out
}

func importsOf(f *ast.File) map[string]string {
	imported := map[string]string{}
	for _, i := range f.Imports {
		importPath, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			continue
		}
		name := path.Base(importPath)
		if i.Name != nil {
			name = i.Name.Name
		}
		imported[name] = importPath
	}
	return imported
}

func (o *sqlcOutput) add(t *ast.TypeSpec, imported map[string]string) {
	switch def := t.Type.(type) {
	case *ast.Ident:
		o.basics[t.Name.Name] = def.Name
	case *ast.StructType:
		var fields []sqlcField
		for _, f := range def.Fields.List {
			for _, name := range f.Names {
				fields = append(fields, sqlcField{name.Name, typeOf(f.Type, imported)})
			}
		}
		o.structs[t.Name.Name] = fields
	}
}

func typeOf(e ast.Expr, imported map[string]string) sqlcType {
	switch e := e.(type) {
	case *ast.Ident:
		return sqlcType{name: e.Name}
	case *ast.SelectorExpr:
		if pkg, ok := e.X.(*ast.Ident); ok && imported[pkg.Name] != "" {
			return sqlcType{imported[pkg.Name], e.Sel.Name}
		}
	case *ast.ArrayType:
		if elem, ok := e.Elt.(*ast.Ident); ok && e.Len == nil && (elem.Name == "byte" || elem.Name == "uint8") {
			return sqlcType{name: "[]byte"}
		}
	}
	return sqlcType{}
}

// isNullable reports the types that sqlc has for a column that may be NULL.
func (t sqlcType) isNullable() bool { return strings.HasPrefix(t.name, "Null") }

// basic is the predeclared type behind t, "" when there is none.
func (o *sqlcOutput) basic(t sqlcType) string {
	if t.importPath != "" {
		return ""
	}
	if behind, ok := o.basics[t.name]; ok {
		return behind
	}
	switch t.name {
	case "string", "bool", "[]byte", "float32", "float64",
		"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64":
		return t.name
	}
	return ""
}

// basicType is the Go code of a basic type.
func basicType(name string) *jen.Statement {
	if name == "[]byte" {
		return jen.Index().Byte()
	}
	return jen.Id(name)
}
