package spec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// planUpcast settles how a version is made of the one before: fields of the same
// name and type are taken over, required ones that are new get their default, and
// what is left is for Go code.
func (c *checker) planUpcast(before, v *Version) {
	up := v.Upcast
	if up == nil {
		up = &Upcast{}
		v.Upcast = up
	}
	up.From = before
	if before.Fields == nil || v.Fields == nil {
		return
	}
	var why []string
	inBoth := true // what differs could be written in both versions
	for _, to := range v.Fields {
		from := fieldOf(before, to.Name.Text)
		if to.Type == nil || from != nil && from.Type == nil {
			return // reported
		}
		var reason difference
		if from != nil {
			reason = up.copyField(from, to, v.Number)
		} else if !to.Optional {
			reason = up.fill(to, "is new and required")
		}
		if reason.text != "" {
			why = append(why, reason.text)
			inBoth = inBoth && reason.inBoth
		}
	}
	if len(why) > 0 && !up.Manual {
		hint := "write upcast: manual, and Go code makes it; or give new fields a default: or a question mark"
		if inBoth {
			hint = "write it in both versions, or name the type under types: and use it in both; or write upcast: manual, and Go code makes it"
		}
		c.problem(&node{pos: v.Pos}, "upcast-needed",
			fmt.Sprintf("version %d can't be made of version %d: %s", v.Number, before.Number, strings.Join(why, "; ")),
			hint,
			diag.Related{Pos: before.Pos, Message: fmt.Sprintf("version %d is here", before.Number)})
	}
}

// copyField notes a field that both versions have, and says why it can't be taken
// over.
func (up *Upcast) copyField(from, to *Field, number int) difference {
	convert := false
	switch {
	case sameShape(from.Type, to.Type, nil):
	case from.Type.Kind == KindEnum && to.Type.Kind == KindEnum && from.Type.Go == nil && to.Type.Go == nil && isWider(to.Type.Named, from.Type.Named):
		convert = true
	default:
		if !to.Optional {
			up.Open = append(up.Open, to)
		}
		return differ(to.Name.Text, versionType{from.Type, up.From.Number}, versionType{to.Type, number})
	}
	fill := from.Optional && !to.Optional
	if fill && to.Default == nil {
		up.Open = append(up.Open, to)
		return difference{text: quote(to.Name.Text) + " was optional and is required"}
	}
	up.Copied = append(up.Copied, &Copy{From: from, To: to, Convert: convert, Default: fill})
	return difference{}
}

func (up *Upcast) fill(to *Field, why string) difference {
	if to.Default != nil {
		up.Filled = append(up.Filled, to)
		return difference{}
	}
	up.Open = append(up.Open, to)
	return difference{text: quote(to.Name.Text) + " " + why}
}

func isWider(wide, narrow *Named) bool {
	for _, v := range narrow.Enum {
		if !slices.ContainsFunc(wide.Enum, func(w EnumValue) bool { return w.Name.Text == v.Name.Text }) {
			return false
		}
	}
	return true
}
