package diag

import (
	"encoding/json"
	"io"
)

// jsonDiagnostic is the machine-readable form of a finding. Its keys are an
// interface to other people's tools: add to them, never rename one.
type jsonDiagnostic struct {
	File     string        `json:"file"`
	Line     int           `json:"line"` // 0: the whole file
	Col      int           `json:"col"`
	EndLine  int           `json:"end_line"` // 0: not known
	EndCol   int           `json:"end_col"`
	Severity string        `json:"severity"` // "error", "warning" or "note"
	Rule     string        `json:"rule"`
	Message  string        `json:"message"`
	Hint     string        `json:"hint"`
	Related  []jsonRelated `json:"related"`
}

type jsonRelated struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Col     int    `json:"col"`
	Message string `json:"message"`
}

// JSON writes the findings as one array, empty when there are none. Every key
// is always there. It writes the list in the order given.
func JSON(w io.Writer, l List) error {
	out := make([]jsonDiagnostic, 0, len(l))
	for _, d := range l {
		j := jsonDiagnostic{
			File: d.Pos.File, Line: d.Pos.Line, Col: d.Pos.Col,
			EndLine: d.End.Line, EndCol: d.End.Col,
			Severity: d.Severity.String(), Rule: d.Rule, Message: d.Message, Hint: d.Hint,
			Related: make([]jsonRelated, 0, len(d.Related)),
		}
		for _, r := range d.Related {
			j.Related = append(j.Related, jsonRelated{r.Pos.File, r.Pos.Line, r.Pos.Col, r.Message})
		}
		out = append(out, j)
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false) // hints are full of list<T>
	enc.SetIndent("", "  ")
	return enc.Encode(out)
}
