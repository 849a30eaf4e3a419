package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"

	"project/pinion"
)

type input struct {
	Folder string `json:"folder" description:"The directory of a Go package"`
	All    bool   `json:"all,omitempty" description:"Also list what is not exported"`
}

// outline lists the declarations of a package without their bodies.
func outline(call *pinion.Call, in input) (string, error) {
	files := token.NewFileSet()
	packages, err := parser.ParseDir(files, call.Path(in.Folder), nil, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	var lines []string
	add := func(at token.Pos, name, text string) {
		if in.All || ast.IsExported(name) {
			place := files.Position(at)
			lines = append(lines, fmt.Sprintf("%s:%d: %s", place.Filename[strings.LastIndex(place.Filename, "/")+1:], place.Line, text))
		}
	}
	for _, pack := range packages {
		ast.Inspect(pack, func(node ast.Node) bool {
			switch found := node.(type) {
			case *ast.FuncDecl:
				receiver := ""
				if found.Recv != nil && len(found.Recv.List) > 0 {
					receiver = "(" + typeName(found.Recv.List[0].Type) + ") "
				}
				add(found.Pos(), found.Name.Name, "func "+receiver+found.Name.Name)
				return false
			case *ast.TypeSpec:
				add(found.Pos(), found.Name.Name, "type "+found.Name.Name)
			case *ast.ValueSpec:
				for _, name := range found.Names {
					add(name.Pos(), name.Name, "value "+name.Name)
				}
			}
			return true
		})
	}
	if len(lines) == 0 {
		return "", &pinion.Error{Kind: pinion.NotFound, Message: "no Go declarations in " + in.Folder}
	}
	return strings.Join(lines, "\n"), nil
}

func typeName(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.StarExpr:
		return "*" + typeName(of.X)
	case *ast.Ident:
		return of.Name
	case *ast.IndexExpr:
		return typeName(of.X)
	}
	return "?"
}

func init() {
	pinion.Tool("go_outline", "Lists the declarations of a Go package with file and line, without their bodies.", pinion.Reads, outline)
	pinion.Command("outline", "Ask for an overview of a Go package", "<directory>", func(_ *pinion.Call, in string) ([]pinion.Action, error) {
		return pinion.Submit("Explain the package in " + in + "; begin with go_outline."), nil
	})
}

func main() {}
