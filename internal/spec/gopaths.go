package spec

import (
	"fmt"
	"path"
	"strings"

	"golang.org/x/mod/module"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// goPath reads the path of a folder that is to hold Go packages.
func (c *checker) goPath(n *node, what string) Name {
	name, ok := c.path(n, what)
	if !ok || name.Text == "." {
		return name
	}
	for element := range strings.SplitSeq(name.Text, "/") {
		if why := notImportable(element); why != "" {
			c.problem(n, "bad-path", fmt.Sprintf("%s %s can't hold a Go package: %s", what, quote(name.Text), why),
				"use letters, digits, dashes and underscores, as in gen/orderevents")
			return Name{}
		}
	}
	return name
}

// notImportable says why Go can't import a package from a folder of that name, on any
// system: the go command passes over some names, and Windows has others for devices.
func notImportable(element string) string {
	switch {
	case element == "vendor" || element == "testdata":
		return fmt.Sprintf("the name %s means something to Go itself", quote(element))
	case strings.HasPrefix(element, ".") || strings.HasPrefix(element, "_"):
		return fmt.Sprintf("Go passes over the folder %s", quote(element))
	case module.CheckImportPath(element) != nil && module.CheckImportPath(element+"x") == nil:
		return fmt.Sprintf("%s can't be a folder's name on every system", quote(element))
	case module.CheckImportPath(element) != nil:
		return fmt.Sprintf("the name %s can't stand in an import path", quote(element))
	}
	return ""
}

// UpcasterPackage is the package of the upcaster's stub, in a folder of that name.
const UpcasterPackage = "upcasts"

// checkGoFolders reports a stub that would lie in the generated package.
func (c *checker) checkGoFolders() {
	out, stubs := c.model.Go.Out, c.model.Go.Consumers.Text
	clash := func(pkg, what string, related ...diag.Related) {
		if out.Text != "" && strings.EqualFold(path.Join(stubs, pkg), out.Text) {
			c.problem(&node{pos: out.Pos}, "bad-path", fmt.Sprintf("go.out %s is the folder of %s too", quote(out.Text), what), "give the generated package a folder of its own", related...)
		}
	}
	for _, con := range c.model.Consumers {
		if con.Package != "" {
			clash(con.Package, "the stub of the consumer "+quote(con.Name.Text), diag.Related{Pos: con.Name.Pos, Message: "the consumer is declared here"})
		}
	}
	for _, ev := range c.model.Events {
		for _, v := range ev.Versions {
			if v.Upcast != nil && v.Upcast.Manual {
				clash(UpcasterPackage, "the upcaster's stub", diag.Related{Pos: v.Pos, Message: "it is asked for here"})
				return
			}
		}
	}
}
