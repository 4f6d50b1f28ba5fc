package simulate

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"html/template"

	"shuultuur/lib/setting"
)

// Table writes the report as a table.
func (r *Report) Table(w io.Writer) error {
	fmt.Fprintf(w, "%d requests for %d objects, %s; %.1f %% of objects were asked for once; %d lines left out\n",
		r.Requests, r.Objects, bytesOf(r.Footprint), 100*r.Once, r.Skipped)
	if r.Broken != "" {
		fmt.Fprintf(w, "The log breaks off (%s): what is before that is simulated.\n", r.Broken)
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "size\tof all\tpolicy\thits\thit bytes\tdisk writes\twritten\tof LRU's\t")
	for _, x := range r.Results {
		fmt.Fprintf(t, "%s\t%.1f %%\t%s\t%.1f %%\t%.1f %%\t%d\t%s\t%.2f\t\n", bytesOf(x.Size), 100*float64(x.Size)/float64(r.Footprint), x.Policy, 100*x.Hits, 100*x.HitBytes, x.Writes, bytesOf(x.WrittenBytes), x.OfLRU)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nRecommended, %s:\n\n%s", r.Advice.Why, r.Advice.YAML())
	return err
}

// YAML returns the recommended settings.
func (a *Advice) YAML() string {
	if a.Disk == 0 {
		return fmt.Sprintf("cache:\n  memory: %s\n  disk: off\n", mebibytes(a.Memory))
	}
	return fmt.Sprintf("cache:\n  memory: %s\n  disk: %s\n  admission: %s\n", mebibytes(a.Memory), mebibytes(a.Disk), a.Admission)
}

func mebibytes(n int64) string { return setting.Size(n).String() }

// bytesOf formats a number of bytes for people.
func bytesOf(n int64) string {
	unit, f := "B", float64(n)
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if f < 1024 {
			break
		}
		unit, f = u, f/1024
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, unit)
}

// A plot is one diagram: a line for each policy, over the sizes.
type plot struct {
	Title string
	Lines []line
	Ticks []tick
	X     []tick
}

type line struct {
	Name, Colour, Points string
	Y                    int // of the label
}

type tick struct {
	At   float64
	Text string
}

// Size of a plot and of its margins.
const (
	plotWidth, plotHeight = 640, 300
	plotLeft, plotBottom  = 60, 40
)

var colours = map[string]string{"lru": "#888", "s3-fifo": "#0b6", "bloom": "#06c", "always": "#c60"}

// plot plots a value of the results.
func (r *Report) plot(title, unit string, value func(*Result) float64) plot {
	p := plot{Title: title}
	var sizes []int64
	var names []string
	most := 0.0
	for i := range r.Results {
		x := &r.Results[i]
		if !slices.Contains(sizes, x.Size) {
			sizes = append(sizes, x.Size)
		}
		if !slices.Contains(names, x.Policy) {
			names = append(names, x.Policy)
		}
		most = max(most, value(x))
	}
	if most == 0 {
		most = 1
	}
	at := func(size int64) float64 {
		i := slices.Index(sizes, size)
		return plotLeft + float64(plotWidth-plotLeft-90)*float64(i)/float64(max(1, len(sizes)-1))
	}
	up := func(v float64) float64 { return float64(plotHeight-plotBottom) * (1 - v/most*0.92) }
	for _, s := range sizes {
		p.X = append(p.X, tick{at(s), bytesOf(s)})
	}
	for i := range 5 {
		v := most * float64(i) / 4
		p.Ticks = append(p.Ticks, tick{up(v), fmt.Sprintf("%.3g%s", v, unit)})
	}
	for _, n := range names {
		l := line{Name: n, Colour: colours[n]}
		var b strings.Builder
		for i := range r.Results {
			if x := &r.Results[i]; x.Policy == n {
				fmt.Fprintf(&b, "%.1f,%.1f ", at(x.Size), up(value(x)))
				l.Y = int(up(value(x)))
			}
		}
		l.Points = b.String()
		p.Lines = append(p.Lines, l)
	}
	return p
}

var page = template.Must(template.New("").Funcs(template.FuncMap{
	"bytes":   bytesOf,
	"percent": func(f float64) string { return fmt.Sprintf("%.1f %%", 100*f) },
}).Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>What a cache would do</title>
<style>body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em}table{border-collapse:collapse}td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid #ddd}svg{max-width:100%}text{font-size:12px;fill:#444}pre{background:#f4f4f4;padding:1em}</style></head><body>
<h1>What a cache would do</h1>
<p>{{.R.Requests}} requests for {{.R.Objects}} objects, {{bytes .R.Footprint}}. {{percent .R.Once}} of objects were asked for once. {{.R.Skipped}} lines were left out.{{if .R.Broken}} The log breaks off ({{.R.Broken}}): what is before that is simulated.{{end}}</p>
<h2>Recommended</h2><p>{{.R.Advice.Why}}.</p><pre>{{.YAML}}</pre>
{{range .Plots}}<h2>{{.Title}}</h2><svg viewBox="0 0 640 300" role="img" aria-label="{{.Title}}">
{{range .Ticks}}<line x1="60" x2="550" y1="{{.At}}" y2="{{.At}}" stroke="#e4e4e4"/><text x="54" y="{{.At}}" text-anchor="end" dy=".3em">{{.Text}}</text>
{{end}}{{range .X}}<text x="{{.At}}" y="282" text-anchor="middle">{{.Text}}</text>
{{end}}{{range .Lines}}<polyline points="{{.Points}}" fill="none" stroke="{{.Colour}}" stroke-width="2"/><text x="556" y="{{.Y}}" style="fill:{{.Colour}}">{{.Name}}</text>
{{end}}</svg>
{{end}}<h2>Figures</h2>
<table><tr><th>Size</th><th>Policy</th><th>Hits</th><th>Hit bytes</th><th>Disk writes</th><th>Written</th><th>Of LRU's writes</th></tr>
{{range .R.Results}}<tr><td>{{bytes .Size}}</td><td>{{.Policy}}</td><td>{{percent .Hits}}</td><td>{{percent .HitBytes}}</td><td>{{.Writes}}</td><td>{{bytes .WrittenBytes}}</td><td>{{percent .OfLRU}}</td></tr>
{{end}}</table></body></html>
`))

// HTML writes the report as a self-contained page.
func (r *Report) HTML(w io.Writer) error {
	return page.Execute(w, struct {
		R     *Report
		YAML  string
		Plots []plot
	}{r, r.Advice.YAML(), []plot{
		r.plot("Requests answered", " %", func(x *Result) float64 { return 100 * x.Hits }),
		r.plot("Bytes answered", " %", func(x *Result) float64 { return 100 * x.HitBytes }),
		r.plot("Writes to the disk, for each request", "", func(x *Result) float64 { return float64(x.Writes) / float64(r.Requests) }),
	}})
}
