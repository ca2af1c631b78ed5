package gogen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// upcasterName is the interface of what only the user's Go code can upcast.
const upcasterName = "Upcaster"

// upcastsFile has how older versions of the events that are handled become the newest.
// It is nil when there are none.
func (g *generator) upcastsFile() *file {
	var events []*spec.Event
	for _, e := range g.model.Events {
		if len(e.Versions) > 1 && g.isHandled(e) {
			events = append(events, e)
		}
	}
	if len(events) == 0 {
		return nil
	}
	f := g.newFile("upcasts.gen.go")
	if steps := g.manualSteps(); len(steps) > 0 {
		f.upcaster(steps)
	}
	for _, e := range events {
		if isManual(e.Newest(), e) {
			f.manualDecoder(e)
		}
		for i := len(e.Versions) - 1; i >= 0; i-- {
			v := e.Versions[i]
			f.versionDecoder(e, v)
			if v.Upcast != nil {
				f.upcast(v)
			}
		}
	}
	return f
}

// step is a version that user code makes of the one before.
type step struct {
	event *spec.Event
	to    *spec.Version
}

// manualSteps are the steps that the upcaster has methods for.
func (g *generator) manualSteps() []step {
	var steps []step
	for _, e := range g.model.Events {
		for _, v := range e.Versions {
			if isStep(v) && g.isHandled(e) {
				steps = append(steps, step{e, v})
			}
		}
	}
	return steps
}

// isManual reports whether user code is needed to make version v of some older one.
func isManual(v *spec.Version, e *spec.Event) bool {
	return slices.ContainsFunc(e.Versions, func(w *spec.Version) bool { return w.Number <= v.Number && isStep(w) })
}

// isStep reports whether user code makes a version of the one before.
func isStep(v *spec.Version) bool { return v.Upcast != nil && v.Upcast.Manual }

// upcastName is the method and the function for a step: UpcastOrderAcceptedV1ToV2.
func upcastName(v *spec.Version) string {
	return fmt.Sprintf("%sToV%d", v.Upcast.From.GoName, v.Number)
}

func (f *file) upcaster(steps []step) {
	methods := make([]jen.Code, 0, 3*len(steps))
	for i, s := range steps {
		if i > 0 {
			methods = append(methods, jen.Line())
		}
		for _, line := range docComment(wrap(stepDoc(s))) {
			methods = append(methods, jen.Comment(line))
		}
		methods = append(methods, upcastMethod(s.to, func(v *spec.Version) jen.Code { return jen.Id(v.GoName) }))
	}
	f.add(docComment(
		wrap(upcasterName+" makes newer payloads of older ones where Go code has to: the versions with `upcast: manual`."),
		wrap("A method gets the payload as it was sent, and the next version with all that could be taken over "+
			"or has a default; it returns the next version whole. It must do nothing else, and do the same "+
			"each time: it runs again at every delivery. "+
			"With an error or a panic, or when Validate refuses the result, the event is parked at once."),
	), "type "+upcasterName, jen.Type().Id(upcasterName).Interface(methods...))
}

// stepDoc says what a method of the upcaster does.
func stepDoc(s step) string {
	doc := fmt.Sprintf("Upcast%s makes version %d of %s of version %d.", upcastName(s.to), s.to.Number, s.event.Name.Text, s.to.Upcast.From.Number)
	if open := openFields(s.to); open != "" {
		doc += " Left to fill: " + open + "."
	}
	return doc
}

// openFields names the fields that only Go code can fill: optional ones as well, where
// the version before has the field with another type.
func openFields(v *spec.Version) string {
	var names []string
	for _, field := range v.Fields {
		changed := !slices.ContainsFunc(v.Upcast.Copied, func(c *spec.Copy) bool { return c.To == field }) &&
			slices.ContainsFunc(v.Upcast.From.Fields, func(f *spec.Field) bool { return f.Name.Text == field.Name.Text })
		if changed || slices.Contains(v.Upcast.Open, field) {
			names = append(names, field.GoName)
		}
	}
	return strings.Join(names, ", ")
}

// upcastMethod is the signature of a method of the upcaster.
func upcastMethod(v *spec.Version, payload func(*spec.Version) jen.Code) *jen.Statement {
	return jen.Id("Upcast"+upcastName(v)).Params(
		jen.Id("old").Add(payload(v.Upcast.From)),
		jen.Id("prefilled").Add(payload(v)),
	).Params(payload(v), jen.Error())
}

// manualDecoder writes what hands the upcaster to the decoder of the newest version.
func (f *file) manualDecoder(e *spec.Event) {
	name, first := "decode"+e.GoName, e.Versions[slices.IndexFunc(e.Versions, isStep)]
	f.add(docComment(wrap(fmt.Sprintf("%s decodes any version of %s, as the newest.", name, e.Name.Text))), "func "+name,
		jen.Func().Id(name).Params(jen.Id("upcaster").Id(upcasterName)).
			Func().Params(jen.Int(), jen.Index().Byte()).Params(jen.Id(e.GoName), jen.Error()).Block(
			jen.Id("_").Op("=").Id("upcaster").Dot("Upcast"+upcastName(first)).Comment("nil fails here, and not at an old message"),
			jen.Return(jen.Func().Params(jen.Id("schemaVersion").Int(), jen.Id("data").Index().Byte()).
				Params(jen.Id(e.GoName), jen.Error()).Block(
				jen.Return(f.decode(e, e.Newest())),
			)),
		))
}

// decode calls the decoder of a version.
func (f *file) decode(e *spec.Event, v *spec.Version) *jen.Statement {
	args := []jen.Code{jen.Id("schemaVersion"), jen.Id("data")}
	if isManual(v, e) {
		args = append([]jen.Code{jen.Id("upcaster")}, args...)
	}
	return jen.Id(decoderName(e, v)).Call(args...)
}

// decoderName is the function that decodes an event as a version of it.
func decoderName(e *spec.Event, v *spec.Version) string {
	if v == e.Newest() && !isManual(v, e) {
		return "decode" + e.GoName
	}
	return "decode" + v.GoName
}

// versionDecoder writes the function that decodes a version, and an older one as that
// version.
func (f *file) versionDecoder(e *spec.Event, v *spec.Version) {
	name := decoderName(e, v)
	params := []jen.Code{jen.Id("schemaVersion").Int(), jen.Id("data").Index().Byte()}
	if isManual(v, e) {
		params = append([]jen.Code{jen.Id("upcaster").Id(upcasterName)}, params...)
	}
	zero := jen.Id(v.GoName).Values()
	body := []jen.Code{jen.If(jen.Id("schemaVersion").Op("==").Lit(v.Number)).Block(
		jen.Return(f.outbox("DecodePayload").Types(jen.Id(v.GoName)).Call(jen.Id("data"))))}
	doc := fmt.Sprintf("%s decodes version %d of %s.", name, v.Number, e.Name.Text)
	if v.Upcast == nil {
		body = append(body, jen.Return(zero, f.outbox("UnknownSchemaVersion").Call(jen.Id("EventType"+e.GoName), jen.Id("schemaVersion"))))
	} else {
		doc = fmt.Sprintf("%s decodes version %d of %s, and an older one as that.", name, v.Number, e.Name.Text)
		body = append(body, jen.List(jen.Id("old"), jen.Err()).Op(":=").Add(f.decode(e, v.Upcast.From)), ifErr(zero.Clone(), jen.Err()))
		body = append(body, f.applyUpcast(e, v)...)
	}
	f.add(docComment(wrap(doc)), "func "+name,
		jen.Func().Id(name).Params(params...).Params(jen.Id(v.GoName), jen.Error()).Block(body...))
}

// applyUpcast makes a version of old, and returns it.
func (f *file) applyUpcast(e *spec.Event, v *spec.Version) []jen.Code {
	made := jen.Id(upcastFunc(v)).Call(jen.Id("old"))
	fails := f.g.upcastFails(v)
	switch {
	case !v.Upcast.Manual && fails:
		return []jen.Code{jen.Return(made)}
	case !v.Upcast.Manual:
		return []jen.Code{jen.Return(made, jen.Nil())}
	}
	var code []jen.Code
	if fails {
		code = append(code, jen.List(jen.Id("prefilled"), jen.Err()).Op(":=").Add(made), ifErr(jen.Id(v.GoName).Values(), jen.Err()))
		made = jen.Id("prefilled")
	}
	return append(code, jen.Return(f.outbox("Upcast").Call(
		jen.Id("EventType"+e.GoName), jen.Lit(v.Upcast.From.Number), jen.Lit(v.Number),
		jen.Id("old"), made, jen.Id("upcaster").Dot("Upcast"+upcastName(v)))))
}
