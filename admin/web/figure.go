package web

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"shuultuur/text"
)

// A Figure is a value with its name.
type Figure map[string]any

// Figures returns the fields of v by their JSON names.
func Figures(v any) Figure {
	text, err := json.Marshal(v)
	f := Figure{}
	if err != nil || json.Unmarshal(text, &f) != nil {
		return nil
	}
	return f
}

// shownFigure is one of them on the page.
type shownFigure struct{ Name, Value string }

// figureNames are the labels of figures, in display order. Figures of faults are shown if
// they are not zero.
var figureNames = []struct {
	field, name string
	trouble     bool
}{
	{"Counters", text.Mark("Counters of limits and quotas"), false}, {"Instructions", text.Mark("Pauses, decisions and sessions, ended ones included"), false},
	{"Lost", text.Mark("Redis is not used"), true}, {"Trips", text.Mark("Requests that waited for Redis"), true}, {"Dropped", text.Mark("Verdicts that did not reach Redis"), true},
	{"Entries", text.Mark("Answers in the cache"), false}, {"Bytes", text.Mark("Memory"), false}, {"Hits", text.Mark("Answered from the cache"), false},
	{"Misses", text.Mark("Asked from upstreams"), false}, {"Failed", text.Mark("Not answered by upstreams"), true}, {"Flights", text.Mark("In progress"), false},
	{"Evicted", text.Mark("Removed for want of room"), true},
}

// Shown returns the figures for a person; programs get all.
func (f Figure) Shown() (all []shownFigure) {
	for _, n := range figureNames {
		v, ok := f[n.field]
		if !ok || n.trouble && v == 0.0 {
			continue
		}
		var text string
		switch v := v.(type) {
		case float64:
			if text = number(int64(v)); n.field == "Bytes" {
				text = size(int64(v))
			}
			if v != math.Trunc(v) {
				text = strconv.FormatFloat(v, 'g', 4, 64)
			}
		case string:
			if text = v; v == "" || strings.HasPrefix(v, "0001-01-01T") {
				continue
			}
		default:
			text = fmt.Sprint(v)
		}
		all = append(all, shownFigure{n.name, text})
	}
	return all
}
