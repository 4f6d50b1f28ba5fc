package load

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"html/template"

	"github.com/HdrHistogram/hdrhistogram-go"

	"shuultuur/lib/dns"
)

// DNSReport has the measurements of a run against a name server. It is also the JSON format,
// which is stable: keys may be added, but do not change their meaning. Times are in
// milliseconds unless the name says seconds. Every query sent is completed, lost or
// unfinished.
type DNSReport struct {
	Started    time.Time `json:"started"`
	Server     string    `json:"server"`
	Mode       string    `json:"mode"` // window or rate
	Load       float64   `json:"load"` // the window, or queries per second
	Sockets    int       `json:"sockets"`
	Seconds    float64   `json:"seconds"` // from the first query to the end of sending, or the last answer
	CPUSeconds float64   `json:"cpu_seconds"`

	Sent          int64 `json:"sent"`
	Completed     int64 `json:"completed"`  // answered in time, with any rcode
	Lost          int64 `json:"lost"`       // no answer in time, or the connection broke
	Unfinished    int64 `json:"unfinished"` // without an answer when the run was interrupted
	Unsent        int64 `json:"unsent"`     // rate: due and never sent
	Unexpected    int64 `json:"unexpected"` // late or duplicate answers, or answers to something else
	Truncated     int64 `json:"truncated"`  // answers with TC set
	Reconnects    int64 `json:"reconnects"`
	BytesSent     int64 `json:"bytes_sent"` // of messages
	BytesReceived int64 `json:"bytes_received"`
	// WindowLost is the share of the window, from 0 to 1, that lost queries occupied on
	// average.
	WindowLost float64 `json:"window_lost"`

	Rcodes   map[string]int64  `json:"rcodes"`
	Errors   map[string]int64  `json:"errors"`   // of the system and of connections, by class
	Examples map[string]string `json:"examples"` // first error of each class

	Total    Latency `json:"total"`    // from sending to the answer
	Intended Latency `json:"intended"` // rate: from the intended time of sending

	Series []Point `json:"series"` // fetches are answers, errors are lost queries
}

func (g *DNS) report(cpu time.Duration, unsent int64, points []Point) *DNSReport {
	r := &DNSReport{
		Started: g.start.UTC().Truncate(time.Second), Server: g.cfg.Server, Mode: "window", Load: float64(g.cfg.Window), Sockets: len(g.flows),
		CPUSeconds: cpu.Seconds(), Unsent: unsent,
		Rcodes: map[string]int64{}, Errors: map[string]int64{}, Examples: map[string]string{}, Series: points,
	}
	if g.cfg.Rate > 0 {
		r.Mode, r.Load = "rate", g.cfg.Rate
	}
	var total, intended dist
	last, lostTime := int64(0), int64(0)
	for _, f := range g.flows {
		f.mu.Lock()
		c := &f.counts
		r.Sent += c.sent
		r.Completed += c.completed
		r.Lost += c.lost
		r.Unfinished += c.unfinished
		r.Unexpected += c.unexpected
		r.Truncated += c.truncated
		r.Reconnects += c.reconnects
		r.BytesSent += c.bytesSent
		r.BytesReceived += c.bytesReceived
		for i, n := range c.rcodes {
			if n > 0 {
				r.Rcodes[dns.RcodeName(uint16(i))] += n
			}
		}
		for i, n := range c.errors {
			if n == 0 {
				continue
			}
			r.Errors[classNames[i]] += n
			if _, there := r.Examples[classNames[i]]; !there {
				r.Examples[classNames[i]] = c.example[i].Error()
			}
		}
		total.merge(&c.total)
		intended.merge(&c.intended)
		last = max(last, c.last)
		lostTime += c.lostTime
		f.mu.Unlock()
	}
	r.Seconds = time.Duration(last).Seconds()
	if g.cfg.Window > 0 && last > 0 {
		r.WindowLost = min(float64(lostTime)/float64(last)/float64(g.cfg.Window), 1)
	}
	r.Total, r.Intended = total.latency(), intended.latency()
	return r
}

// Text writes the report for people.
func (r *DNSReport) Text(w io.Writer) error {
	p := printer{w: w}
	share := func(n int64) float64 { return 100 * float64(n) / float64(max(r.Sent, 1)) }
	p.f("%s, %s %.6g, %d sockets, %.6g seconds\n\n", r.Server, r.Mode, r.Load, r.Sockets, r.Seconds)
	p.f("queries sent %12d\n", r.Sent)
	p.f("completed    %12d  %6.2f %%\n", r.Completed, share(r.Completed))
	p.f("lost         %12d  %6.2f %%\n", r.Lost, share(r.Lost))
	for _, o := range []struct {
		name string
		n    int64
	}{{"unfinished", r.Unfinished}, {"due, not sent", r.Unsent}, {"unexpected", r.Unexpected}, {"truncated", r.Truncated}, {"reconnects", r.Reconnects}} {
		if o.n > 0 {
			p.f("%-13s%12d\n", o.name, o.n)
		}
	}
	if r.Seconds > 0 {
		p.f("rate         %12.6g  queries/s\n", float64(r.Completed)/r.Seconds)
	}
	if r.WindowLost >= 0.01 {
		p.f("lost window  %19.2f %%  of the window waited for lost queries\n", 100*r.WindowLost)
	}
	if r.WindowLost >= 0.5 {
		p.f("The window was full of lost queries, so that few others were sent: the rate says little\n" +
			"of the server. Use -rate, a larger -window or a shorter -timeout.\n")
	}
	if r.Completed > 0 {
		p.f("bytes        %12.4g  a query, %.4g an answer\n", float64(r.BytesSent)/float64(max(r.Sent, 1)), float64(r.BytesReceived)/float64(r.Completed))
	}
	p.f("\n")
	for i := range uint16(16) {
		name := dns.RcodeName(i)
		if n := r.Rcodes[name]; n > 0 {
			p.f("%-10s   %12d  %6.2f %%\n", name, n, 100*float64(n)/float64(r.Completed))
		}
	}
	p.f("\n%-28s%9s%10s%10s%10s%10s%10s%10s%10s\n", "msecs", "count", "mean", "min", "p50", "p90", "p99", "p99.9", "max")
	rows := []row{{"total", r.Total}, {"total from intended send", r.Intended}}
	for _, row := range slices.DeleteFunc(rows, func(r row) bool { return r.Count == 0 }) {
		l := row.Latency
		p.f("%-28s%9d", row.name, l.Count)
		for _, v := range []float64{l.Mean, l.Min, l.P50, l.P90, l.P99, l.P999, l.Max} {
			p.f("%10.3f", v)
		}
		p.f("\n")
	}
	if len(r.Errors) > 0 {
		p.f("\nerrors:\n")
	}
	for _, c := range sortedKeys(r.Errors) {
		p.f("  %d %s: %s\n", r.Errors[c], c, r.Examples[c])
	}
	p.f("\ngenerator: %.3g s of CPU", r.CPUSeconds)
	if r.Completed > 0 {
		p.f(", %.3g µs/query", r.CPUSeconds*1e6/float64(r.Completed))
	}
	p.f("\n")
	return p.err
}

// JSON writes the report for machines.
func (r *DNSReport) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}

// HTML writes the report as a self-contained page.
func (r *DNSReport) HTML(w io.Writer) error {
	t, err := template.New("report").Parse(reportHTML)
	if err != nil {
		return fmt.Errorf("parse the report's template: %w", err)
	}
	var text strings.Builder
	if err := r.Text(&text); err != nil {
		return err
	}
	// The plots are those of HTTP's series with other names.
	points := Report{Series: r.Series}
	rates := points.ratePlot()
	rates.Title = "Answers and lost queries per second"
	for i, name := range []string{"answers/s", "lost/s"} {
		if i < len(rates.Lines) {
			rates.Lines[i].Name = name
		}
	}
	hist := r.Total
	if r.Mode == "rate" {
		hist = r.Intended
	}
	return t.Execute(w, map[string]any{
		"Title": fmt.Sprintf("%s, %s %.6g, %s", r.Server, r.Mode, r.Load, r.Started.Format("2006-01-02 15:04:05 MST")),
		"Text":  text.String(),
		"Plots": []plot{points.latencyPlot(), rates, histogramPlot(hist)},
	})
}

// dnsWatch samples the flows at even intervals, for the series of the report and the progress
// line.
type dnsWatch struct {
	g         *DNS
	every     time.Duration
	series    []Point
	lastShown time.Time
	since     Point
}

func newDNSWatch(g *DNS) *dnsWatch {
	every := max(100*time.Millisecond, (g.cfg.Duration / 300).Truncate(100*time.Millisecond))
	if g.cfg.Duration == 0 {
		every = time.Second
	}
	return &dnsWatch{g: g, every: every, lastShown: g.start}
}

func (w *dnsWatch) run(over <-chan struct{}) {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			w.look(now)
		case <-over:
			w.look(time.Now())
			return
		}
	}
}

func (w *dnsWatch) look(now time.Time) {
	all := hdrhistogram.New(1, histMax, histDigits)
	p := Point{At: now.Sub(w.g.start).Seconds()}
	waiting := 0
	for _, f := range w.g.flows {
		f.mu.Lock()
		all.Merge(f.recent)
		f.recent.Reset()
		p.Errors += f.recentLost
		f.recentLost = 0
		waiting += f.outstanding
		f.mu.Unlock()
	}
	p.Fetches = all.TotalCount()
	if p.Fetches > 0 {
		p.P50, p.P99, p.Max = quantile(all, 50), quantile(all, 99), ms(time.Duration(all.Max())*time.Microsecond)
	}
	if len(w.series) < maxPoints {
		w.series = append(w.series, p)
	}
	w.since.Fetches += p.Fetches
	w.since.Errors += p.Errors
	w.since.P99 = max(w.since.P99, p.P99)
	gap := now.Sub(w.lastShown)
	if w.g.cfg.Progress == nil || gap < 900*time.Millisecond {
		return
	}
	fmt.Fprintf(w.g.cfg.Progress, "--- %.3g secs, %.6g/s, %d waiting, p99 %.3g ms, %d lost\n",
		p.At, float64(w.since.Fetches)/gap.Seconds(), waiting, w.since.P99, w.since.Errors)
	w.lastShown, w.since = now, Point{}
}
