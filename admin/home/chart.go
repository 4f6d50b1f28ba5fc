package home

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"shuultuur/admin/web"
	"shuultuur/filter"
	"shuultuur/text"
)

// An hourChart is the last hour as the server draws it, in 600 by 100: what is open above a line,
// what is blocked below it.
type hourChart struct {
	Bars      []hourBars
	Keys      []hourKey
	Times     []string
	Top, Half int64 // the values of the two upper lines
	Table     web.Graph
}

// hourBars are the bars of one action.
type hourBars struct{ Class, Path string }

type hourKey struct {
	Class, Name string
	N           int64
}

// saidOf are the words for what became of requests, where they are not those for the actions of rules.
var saidOf = map[filter.Action]string{filter.Pass: text.Mark("open"), filter.Warn: text.Mark("warned"), filter.Block: text.Mark("blocked")}

// classOf are the names that the style sheet has for actions.
var classOf = map[filter.Action]string{filter.Pass: "pass", filter.Allow: "allow", filter.Warn: "warn", filter.Redirect: "move", filter.Block: "block"}

const (
	zeroLine = 70.0 // below the top
	barsHigh = 66.0
	barWidth = 10
)

// chart draws the hour.
func (r *Recent) chart() (c hourChart) {
	c.Table = r.graphs()
	minutes := slices.Collect(slices.Chunk(r.Moments, merged))
	count := func(some []Moment, a filter.Action) (n int64) {
		for _, m := range some {
			n += int64(m.Counts[a.String()])
		}
		return n
	}
	most := int64(1)
	for _, some := range minutes {
		above := int64(0)
		for _, a := range stacked {
			if n := count(some, a); a == filter.Block {
				most = max(most, n*2) // less room is below the line
			} else {
				above += n
			}
		}
		most = max(most, above)
	}
	c.Top = round(most)
	c.Half = c.Top / 2
	scale := barsHigh / float64(c.Top)
	var paths [len(stacked)]strings.Builder
	for i, some := range minutes {
		at := zeroLine
		for k, a := range stacked {
			n := count(some, a)
			if n == 0 {
				continue
			}
			x, high := i*barWidth+1, float64(n)*scale
			if a == filter.Block {
				fmt.Fprintf(&paths[k], "M%d %.1fv%.1fh8v-%.1fz", x, zeroLine+.8, high, high)
				continue
			}
			fmt.Fprintf(&paths[k], "M%d %.1fv-%.1fh8v%.1fz", x, at, high, high)
			at -= high
		}
		if i%10 == 0 {
			c.Times = append(c.Times, some[0].At.Local().Format("15:04"))
		}
	}
	for k, a := range stacked {
		if n := r.Actions[a.String()]; n > 0 {
			c.Bars = append(c.Bars, hourBars{classOf[a], paths[k].String()})
			c.Keys = append(c.Keys, hourKey{classOf[a], cmp.Or(saidOf[a], a.String()), n})
		}
	}
	return c
}

// round returns the next figure that people like to read at an axis.
func round(n int64) int64 {
	for unit := int64(1); ; unit *= 10 {
		for _, f := range []int64{2, 4, 10} {
			if f*unit >= n {
				return f * unit
			}
		}
	}
}
