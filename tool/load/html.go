package load

import (
	_ "embed"
	"fmt"
	"io"
	"math"
	"strings"

	"html/template"
)

//go:embed report.html
var reportHTML string

// The drawing area of a plot inside its margins, in SVG units.
const (
	plotWidth  = 720.0
	plotHeight = 220.0
	marginLeft = 60.0
	marginTop  = 10.0
)

// plot is one diagram: lines or bars with their axes.
type plot struct {
	Title string
	Lines []line
	Bars  []bar
	X, Y  []mark
}

type line struct{ Name, Class, Points string }

type bar struct {
	X, Y, W, H float64
	Title      string
}

// mark is a labelled position on an axis.
type mark struct {
	At    float64
	Label string
}

// HTML writes the report as a self-contained page.
func (r *Report) HTML(w io.Writer) error {
	t, err := template.New("report").Parse(reportHTML)
	if err != nil {
		return fmt.Errorf("parse the report's template: %w", err)
	}
	var text strings.Builder
	if err := r.Text(&text); err != nil {
		return err
	}
	hist := r.Total
	if r.Loop == "open" {
		hist = r.Intended
	}
	return t.Execute(w, map[string]any{
		"Title": fmt.Sprintf("%s loop, %.6g, %s", r.Loop, r.Load, r.Started.Format("2006-01-02 15:04:05 MST")),
		"Text":  text.String(),
		"Plots": []plot{r.latencyPlot(), r.ratePlot(), histogramPlot(hist)},
	})
}

func (r *Report) latencyPlot() plot {
	p := plot{Title: "Latency over time (ms, from the intended send time)"}
	p.overTime(r.Series, []series{
		{"max", "max", func(q Point) float64 { return q.Max }},
		{"p99", "p99", func(q Point) float64 { return q.P99 }},
		{"p50", "p50", func(q Point) float64 { return q.P50 }},
	})
	return p
}

func (r *Report) ratePlot() plot {
	p := plot{Title: "Fetches and errors per second"}
	rates := make([]Point, len(r.Series))
	before := 0.0
	for i, q := range r.Series {
		// Convert counts to rates; the last interval may be a short one.
		gap := max(q.At-before, 0.001)
		rates[i] = Point{At: q.At, P50: float64(q.Fetches) / gap, P99: float64(q.Errors) / gap}
		before = q.At
	}
	if n := len(rates); n > 1 && rates[n-1].At-rates[n-2].At < 0.05 {
		rates = rates[:n-1] // too short for a rate
	}
	p.overTime(rates, []series{
		{"fetches/s", "p50", func(q Point) float64 { return q.P50 }},
		{"errors/s", "max", func(q Point) float64 { return q.P99 }},
	})
	return p
}

type series struct {
	name, class string
	of          func(Point) float64
}

// overTime plots series over seconds.
func (p *plot) overTime(points []Point, all []series) {
	if len(points) == 0 {
		return
	}
	topX, topY := points[len(points)-1].At, 0.0
	for _, s := range all {
		for _, q := range points {
			topY = max(topY, s.of(q))
		}
	}
	x, y := scale(topX), scale(topY)
	for _, s := range all {
		var b strings.Builder
		for _, q := range thinOut(points) {
			fmt.Fprintf(&b, "%.1f,%.1f ", marginLeft+plotWidth*q.At/x, marginTop+plotHeight*(1-s.of(q)/y))
		}
		p.Lines = append(p.Lines, line{s.name, s.class, strings.TrimSpace(b.String())})
	}
	for i := range 6 {
		f := float64(i) / 5
		p.X = append(p.X, mark{marginLeft + plotWidth*f, fmt.Sprintf("%.4g s", x*f)})
		p.Y = append(p.Y, mark{marginTop + plotHeight*(1-f), fmt.Sprintf("%.4g", y*f)})
	}
}

// thinOut reduces the plot of a long run: it keeps the worst point of each group.
func thinOut(points []Point) []Point {
	const most = 600
	group := (len(points) + most - 1) / most
	if group <= 1 {
		return points
	}
	var out []Point
	for i := 0; i < len(points); i += group {
		worst := points[i]
		for _, q := range points[i:min(i+group, len(points))] {
			if q.Max > worst.Max {
				worst = q
			}
		}
		out = append(out, worst)
	}
	return out
}

// scale rounds the end of an axis up to 1, 2 or 5 times a power of ten.
func scale(top float64) float64 {
	if top <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(top)))
	for _, f := range []float64{1, 2, 5} {
		if top <= f*power {
			return f * power
		}
	}
	return 10 * power
}

// histogramPlot has one bar per bucket; buckets are logarithmic.
func histogramPlot(l Latency) plot {
	p := plot{Title: "Latency histogram (ms, logarithmic)"}
	if len(l.Buckets) == 0 {
		return p
	}
	steps := bucketSteps()
	first, last := len(steps), 0
	top := int64(0)
	at := map[float64]int64{}
	for i, s := range steps {
		for _, b := range l.Buckets {
			if b.UpTo == s {
				first, last, top = min(first, i), max(last, i), max(top, b.Count)
				at[s] = b.Count
			}
		}
	}
	if top == 0 {
		return p // not our buckets: the file comes from elsewhere
	}
	width := plotWidth / float64(last-first+1)
	every := 1 + (last-first)/12
	y := scale(float64(top))
	for i := first; i <= last; i++ {
		x := marginLeft + width*float64(i-first)
		h := plotHeight * float64(at[steps[i]]) / y
		p.Bars = append(p.Bars, bar{x, marginTop + plotHeight - h, width * 0.9, h, fmt.Sprintf("up to %g ms: %d", steps[i], at[steps[i]])})
		if (i-first)%every == 0 {
			p.X = append(p.X, mark{x + width, fmt.Sprintf("%.4g", steps[i])})
		}
	}
	for i := range 6 {
		f := float64(i) / 5
		p.Y = append(p.Y, mark{marginTop + plotHeight*(1-f), fmt.Sprintf("%.4g", y*f)})
	}
	return p
}
