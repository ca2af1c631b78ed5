package export

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"
)

// Sizes of the drawing, in its own units: pixels where it has its full width.
const (
	flowWidth  = 660
	flowBox    = 250
	flowHeight = 30 // of a box
	flowStep   = 42 // from one box to the next
	flowText   = 28 // characters that fit in a box

	// mostEvents are drawn one by one; of more, what is drawn is their aggregates.
	mostEvents = 30
)

// box is something at an end of an arrow.
type box struct {
	label, title, target string
	events               []string
}

// flow draws the way of the events to their consumers. It is empty without consumers.
func flow(c catalogue) template.HTML {
	if len(c.Consumers) == 0 {
		return ""
	}
	left := flowSources(c)
	from := map[string]int{} // event -> index in left
	for i, b := range left {
		for _, e := range b.events {
			from[e] = i
		}
	}
	var right []box
	for _, con := range c.Consumers {
		right = append(right, box{con.Name, con.Name, "consumer-" + con.Name, con.Handles})
	}
	// A consumer stands about where its events do, so that fewer lines cross.
	slices.SortStableFunc(right, func(a, b box) int { return cmp.Compare(meanOf(a.events, from), meanOf(b.events, from)) })

	height := max(len(left), len(right))*flowStep + 8
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" width="%d" height="%d" role="group" aria-label="Which consumers get which events">`, flowWidth, height, flowWidth, height)
	for i, r := range right {
		drawn := map[int]bool{}
		for _, e := range r.events {
			if at := from[e]; !drawn[at] {
				drawn[at] = true
				fmt.Fprintf(&b, `<path d="M%d %d C%d %d %d %d %d %d"/>`, flowBox, middle(at, len(left), height),
					flowWidth/2, middle(at, len(left), height), flowWidth/2, middle(i, len(right), height), flowWidth-flowBox, middle(i, len(right), height))
			}
		}
	}
	drawBoxes(&b, left, 0, "event", height)
	drawBoxes(&b, right, flowWidth-flowBox, "consumer", height)
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // what is not a number in it was escaped
}

func flowSources(c catalogue) []box {
	var boxes []box
	for _, a := range c.Aggregates {
		whole := box{label: a.Type + ": " + count(len(a.Events), "event"), target: "aggregate-" + a.Type}
		whole.title = whole.label
		for _, e := range a.Events {
			whole.events = append(whole.events, e.Name)
			if c.Events <= mostEvents {
				boxes = append(boxes, box{e.Name, e.Name, "event-" + e.Name, []string{e.Name}})
			}
		}
		if c.Events > mostEvents {
			boxes = append(boxes, whole)
		}
	}
	return boxes
}

func meanOf(events []string, from map[string]int) float64 {
	sum := 0
	for _, e := range events {
		sum += from[e]
	}
	return float64(sum) / float64(max(len(events), 1))
}

// middle is the height of a box's middle, n of them spread over the whole.
func middle(i, n, height int) int { return (2*i + 1) * height / (2 * n) }

func drawBoxes(b *strings.Builder, boxes []box, x int, class string, height int) {
	for i, box := range boxes {
		y := middle(i, len(boxes), height)
		label := box.label
		if r := []rune(label); len(r) > flowText {
			label = string(r[:flowText-1]) + "…"
		}
		esc := template.HTMLEscapeString
		fmt.Fprintf(b, `<a href="#%s" class="%s"><title>%s</title><rect x="%d" y="%d" width="%d" height="%d" rx="6"/><text x="%d" y="%d">%s</text></a>`,
			esc(box.target), class, esc(box.title), x+1, y-flowHeight/2, flowBox-2, flowHeight, x+14, y+5, esc(label))
	}
}
