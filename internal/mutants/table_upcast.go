package main

func versions(test string) target { return target{"internal/gogen", test} }

// How older versions of a payload become the newest.
var upcastMutants = []mutant{
	{
		name: "an old version is read as the newest", file: "gen/orderevents/upcasts.gen.go",
		old: "	if schemaVersion == 2 {", new: "	if schemaVersion <= 2 {",
		target: target{"gen/orderevents", "^TestOrderAcceptedV1Upcast$"},
	},
	{
		name: "an unknown version is read as the oldest", file: "internal/gogen/upcasts.go",
		old:    "	if v.Upcast == nil {\n		body = append(body, jen.Return(zero, f.outbox(\"UnknownSchemaVersion\").Call(jen.Id(\"EventType\"+e.GoName), jen.Id(\"schemaVersion\"))))",
		new:    "	if v.Upcast == nil {\n		_, body[0] = zero, jen.Return(f.outbox(\"DecodePayload\").Types(jen.Id(v.GoName)).Call(jen.Id(\"data\")))",
		target: versions("^TestVersionsBehaviour$"),
	},
	{
		name: "a new field doesn't get its default", file: "internal/gogen/upcast.go",
		old: "		values[field] = f.defaultValue(field)\n", new: "		_ = field\n",
		target: versions("^TestVersionsBehaviour$"),
	},
	{
		name: "a default replaces what is there", file: "internal/gogen/upcast.go",
		old: "	for _, c := range v.Upcast.Copied {\n		if c.Default {\n			body =", new: "	for _, c := range v.Upcast.Copied {\n		if c.Default && false {\n			body =",
		target: versions("^TestVersionsBehaviour$"),
	},
	{
		name: "a default that can't be read is a zero", file: "runtime/outbox/upcast.go",
		old: "	if len(d.problems) == 0 {", new: "	if len(d.problems) >= 0 {",
		target: unit("^TestDefault$"),
	},
	{
		name: "the upcaster is left out", file: "runtime/outbox/upcast.go",
		old: "		if made, err = method(old, prefilled); err != nil {", new: "		if _, err = method(old, prefilled); err != nil {",
		target: unit("^TestUpcastFailuresAreParkedAtOnce$"),
	},
	{
		name: "an upcaster's result is taken as it is", file: "runtime/outbox/upcast.go",
		old: "		if err := made.Validate(); err != nil {", new: "		if err := made.Validate(); false {",
		target: unit("^TestUpcastFailuresAreParkedAtOnce$"),
	},
}
