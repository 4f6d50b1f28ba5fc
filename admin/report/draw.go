package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"shuultuur/text"
)

// A Shape is filled polygons of one colour, in a drawing that is wide by 100 high. A page draws it as
// SVG, a PDF as it is.
type Shape struct {
	Class    string
	Polygons [][]Point
}

// A Point is a place in a drawing, from its upper left corner.
type Point struct{ X, Y float64 }

// Path returns the shape as the path of an SVG.
func (s Shape) Path() string {
	var b strings.Builder
	for _, all := range s.Polygons {
		for i, p := range all {
			letter := "L"
			if i == 0 {
				letter = "M"
			}
			b.WriteString(letter + figure(p.X) + " " + figure(p.Y))
		}
		b.WriteString("z")
	}
	return b.String()
}

func figure(f float64) string { return strconv.FormatFloat(math.Round(f*10)/10, 'f', -1, 64) }

const (
	wide   = 960.0 // of a drawing
	ground = 96.0  // where bars stand
	ceil   = 4.0   // how far they may rise
)

// A Chart is a drawing over time with its scale.
type Chart struct {
	Shapes []Shape
	Before string  // a path: the time before
	Top    int     // the value of the upper line
	Marks  []Mark  // below it
	Places []Place // of the steps
}

// A Mark is a time below a chart.
type Mark struct {
	Text string
	Rare bool // it can be left out where there is little room
}

// A Place is that of a step in a chart.
type Place struct{ X, Wide float64 }

// Bars draws the requests of each step, blocked ones on top.
func (p *Pictures) Bars() (c Chart) {
	most := 1
	for _, s := range p.Steps {
		most = max(most, s.All(), s.Before)
	}
	c.Top = nice(most)
	step := wide / float64(len(p.Steps))
	gap := min(10, step*.3)
	scale := (ground - ceil) / float64(c.Top)
	layers := []Shape{{Class: "pass"}, {Class: "warn"}, {Class: "block"}}
	var before strings.Builder
	for i, s := range p.Steps {
		x, y := float64(i)*step+gap/2, ground
		c.Places = append(c.Places, Place{float64(i) * step, step})
		for k, n := range []int{s.Open, s.Warned, s.Blocked} {
			if high := float64(n) * scale; n > 0 {
				layers[k].Polygons = append(layers[k].Polygons, []Point{{x, y}, {x, y - high}, {x + step - gap, y - high}, {x + step - gap, y}})
				y -= high
			}
		}
		letter := "L"
		if i == 0 {
			letter = "M"
		}
		fmt.Fprintf(&before, "%s%s %s", letter, figure(float64(i)*step+step/2), figure(ground-float64(s.Before)*scale))
		if s.Before > 0 {
			c.Before = "."
		}
	}
	if c.Before != "" {
		c.Before = before.String()
	}
	for _, l := range layers {
		if len(l.Polygons) > 0 {
			c.Shapes = append(c.Shapes, l)
		}
	}
	c.Marks = p.marks()
	return c
}

// marks names a few steps.
func (p *Pictures) marks() (all []Mark) {
	const most = 6
	n := len(p.Steps)
	if p.Unit == "hour" && n == 24 {
		for hour := 0; hour <= n; hour += 6 { // the last is where the day ends
			all = append(all, Mark{fmt.Sprintf("%02d:00", hour), hour%12 != 0})
		}
		return all
	}
	shown := min(n, most)
	for k := range shown {
		all = append(all, Mark{p.Stamp(k * (n - 1) / max(1, shown-1)), k%2 == 1 && k+1 < shown})
	}
	return all
}

// Areas draws what was blocked of each kind over time, one above the other, the most frequent kind
// at the bottom.
func (p *Pictures) Areas() (c Chart) {
	most, n := 1, len(p.Steps)
	for i := range n {
		sum := 0
		for _, k := range p.Kinds {
			sum += k.Steps[i]
		}
		most = max(most, sum)
	}
	c.Top = nice(most)
	scale := (ground - ceil) / float64(c.Top)
	at := func(i int) float64 {
		if n == 1 {
			return 0
		}
		return wide * float64(i) / float64(n-1)
	}
	floor := make([]float64, n)
	for k, kind := range p.Kinds {
		var below, above []Point
		for i := range n {
			below = append(below, Point{at(i), ground - floor[i]*scale})
			floor[i] += float64(kind.Steps[i])
			above = append(above, Point{at(i), ground - floor[i]*scale})
		}
		if n == 1 { // a level as wide as the drawing
			below, above = append(below, Point{wide, below[0].Y}), append(above, Point{wide, above[0].Y})
		}
		for i := len(above) - 1; i >= 0; i-- {
			below = append(below, above[i])
		}
		c.Shapes = append(c.Shapes, Shape{bandOf(k), [][]Point{below}})
	}
	c.Marks = p.marks()
	return c
}

// bandOf returns the class of a kind's colour: the most frequent kind has the strongest.
func bandOf(kind int) string { return "h" + strconv.Itoa(mostKinds-kind) }

// Band returns the class of the colour of a kind.
func (p *Pictures) Band(kind int) string { return bandOf(kind) }

// Path draws the hours of a person as bars in 240 by 32.
func (c *Curve) Path() string {
	most := 1
	for _, n := range c.Hours {
		most = max(most, n)
	}
	var b strings.Builder
	for hour, n := range c.Hours {
		fmt.Fprintf(&b, "M%d 32v-%sh8V32z", hour*10+1, figure(max(.5, 31*float64(n)/float64(most))))
	}
	return b.String()
}

// Share is how much of the curve was blocked, in percent.
func (c *Curve) Share() float64 { return 100 * float64(c.Blocked) / float64(max(1, c.Requests)) }

// Strength returns how strong the colour of a cell is among the hours, from 0 to 5.
func (p *Pictures) Strength(day, hour int) int {
	most := 0
	for _, d := range p.Hours {
		for _, n := range d {
			most = max(most, n)
		}
	}
	n := p.Hours[day][hour]
	if n == 0 {
		return 0
	}
	return max(1, int(math.Ceil(5*float64(n)/float64(most))))
}

// Busiest returns the weekday and the hour in which most was blocked; ok is false if nothing was.
func (p *Pictures) Busiest() (day, hour int, ok bool) {
	most := 0
	for d := range p.Hours {
		for h, n := range p.Hours[d] {
			if n > most {
				most, day, hour = n, d, h
			}
		}
	}
	return day, hour, most > 0
}

// nice returns the next figure that people like to read at an axis.
func nice(n int) int {
	for unit := 1; ; unit *= 10 {
		for _, f := range []int{2, 4, 6, 8, 10} {
			if f*unit >= n {
				return f * unit
			}
		}
	}
}

// inks are the colours of a PDF by class.
var inks = map[string][3]float64{"pass": {.44, .56, .83}, "warn": {.80, .52, .05}, "block": {.87, .32, .22},
	"h0": {.93, .93, .91}, "h1": {.93, .84, .82}, "h2": {.91, .73, .69}, "h3": {.90, .59, .52}, "h4": {.88, .45, .36}, "h5": {.87, .32, .22}}

// pictures draws the figures of the report on the paper.
func (p *paper) pictures(x *Pictures) {
	if x == nil || len(x.Steps) == 0 {
		return
	}
	p.drawing(p.texts.Say("Requests over time"), x.Bars(), 110)
	p.keys([]string{"block", "warn", "pass"}, []string{p.texts.Say("blocked"), p.texts.Say("warned"), p.texts.Say("open")})
	if len(x.Kinds) > 0 {
		p.drawing(p.texts.Say("Blocked, by kind"), x.Areas(), 80)
		var classes, names []string
		for i, k := range x.Kinds {
			classes, names = append(classes, bandOf(i)), append(names, KindName(p.texts, k.Name))
		}
		p.keys(classes, names)
	}
	if _, _, any := x.Busiest(); any {
		p.hours(x)
	}
}

// room begins a new sheet where so much does not fit on this one.
func (p *paper) room(high float64) {
	if p.y-high < bottom && len(p.pages) < maxPages {
		p.page()
	}
}

// drawing draws a chart below a title.
func (p *paper) drawing(title string, c Chart, high float64) {
	p.room(high + 80)
	p.line(30)
	p.text(left, 13, title)
	p.y -= 10 + high
	across, up := (right-left)/wide, high/100
	for _, s := range c.Shapes {
		p.fill(s, func(at Point) (float64, float64) { return left + at.X*across, p.y + high - at.Y*up })
	}
	p.y += high * (100 - ground) / 100
	p.rule()
	p.y -= high * (100 - ground) / 100
	p.line(14)
	n := float64(max(1, len(c.Marks)-1))
	for i, m := range c.Marks {
		if len(c.Marks) > 1 {
			p.text(left+float64(i)*(right-left-40)/n, 8, m.Text)
		} else {
			p.text(left, 8, m.Text)
		}
	}
}

// fill draws a shape; at says where its points are.
func (p *paper) fill(s Shape, at func(Point) (x, y float64)) {
	ink := inks[s.Class]
	b := p.pages[len(p.pages)-1]
	fmt.Fprintf(b, "q %.2f %.2f %.2f rg\n", ink[0], ink[1], ink[2])
	for _, all := range s.Polygons {
		for i, point := range all {
			x, y := at(point)
			op := "l"
			if i == 0 {
				op = "m"
			}
			fmt.Fprintf(b, "%.2f %.2f %s ", x, y, op)
		}
		b.WriteString("h f\n")
	}
	b.WriteString("Q\n")
}

// square draws a square of a colour in the current line.
func (p *paper) square(class string, x, y, wide, high float64) {
	p.fill(Shape{class, [][]Point{{{x, y}, {x + wide, y}, {x + wide, y + high}, {x, y + high}}}}, func(at Point) (float64, float64) { return at.X, at.Y })
}

// keys says which colour is what.
func (p *paper) keys(classes, names []string) {
	p.line(16)
	x := left
	for i, name := range names {
		long := p.width(name, 9) + 28
		if x+long > right && x > left {
			p.line(13)
			x = left
		}
		p.square(classes[i], x, p.y, 8, 8)
		p.text(x+12, 9, p.fit(name, 9, right-x-12))
		x += long
	}
}

// hours draws when most was blocked.
func (p *paper) hours(x *Pictures) {
	const cell, high = 19.0, 12.0
	p.room(7*high + 70)
	p.line(30)
	p.text(left, 13, p.texts.Say("When is most blocked?"))
	p.line(16)
	for hour := 0; hour < 24; hour += 3 {
		p.text(left+36+float64(hour)*cell, 8, fmt.Sprintf("%02d:00", hour))
	}
	for day := range x.Hours {
		p.line(high)
		p.text(left, 8, Weekday(p.texts, day))
		for hour := range 24 {
			p.square("h"+strconv.Itoa(x.Strength(day, hour)), left+36+float64(hour)*cell, p.y-2, cell-1.5, high-1.5)
		}
	}
}

// Weekday returns the short name of a day, Monday first.
func Weekday(t *text.Texts, day int) string {
	return t.Say([...]string{text.Mark("Mon"), text.Mark("Tue"), text.Mark("Wed"), text.Mark("Thu"), text.Mark("Fri"), text.Mark("Sat"), text.Mark("Sun")}[day])
}
