package load

import "io"

// Compare writes two reports side by side, with the ratio of the second to the first. nameA
// and nameB are the column headings.
func Compare(w io.Writer, nameA string, a *Report, nameB string, b *Report) error {
	p := printer{w: w}
	p.f("%-32s%16s%16s%10s\n", "", nameA, nameB, "ratio")
	line := func(name string, x, y float64) {
		if x == 0 && y == 0 {
			return
		}
		p.f("%-32s%16.6g%16.6g", name, x, y)
		if x != 0 {
			p.f("%10.3f", y/x)
		} else {
			p.f("%10s", "-")
		}
		p.f("\n")
	}
	line("fetches", float64(a.Fetches), float64(b.Fetches))
	line("fetches/sec", per(float64(a.Fetches), a.Seconds), per(float64(b.Fetches), b.Seconds))
	line("bytes/sec", per(float64(a.Bytes), a.Seconds), per(float64(b.Bytes), b.Seconds))
	line("generator CPU µs/fetch", per(a.CPUSeconds*1e6, float64(a.Fetches)), per(b.CPUSeconds*1e6, float64(b.Fetches)))
	for _, d := range []struct {
		name string
		a, b Latency
	}{
		{"connect", a.Connect, b.Connect}, {"TLS handshake", a.TLS, b.TLS}, {"first byte", a.FirstByte, b.FirstByte},
		{"total", a.Total, b.Total}, {"from intended send", a.Intended, b.Intended}, {"batch", a.Batch, b.Batch},
	} {
		line(d.name+" mean ms", d.a.Mean, d.b.Mean)
		line(d.name+" p50 ms", d.a.P50, d.b.P50)
		line(d.name+" p90 ms", d.a.P90, d.b.P90)
		line(d.name+" p99 ms", d.a.P99, d.b.P99)
		line(d.name+" p99.9 ms", d.a.P999, d.b.P999)
		line(d.name+" max ms", d.a.Max, d.b.Max)
	}
	line("changed bodies", float64(a.BadBodies), float64(b.BadBodies))
	names := map[string]bool{}
	for _, m := range []map[string]int64{a.Errors, b.Errors} {
		for name := range m {
			names[name] = true
		}
	}
	for _, name := range sortedKeys(names) {
		line("error: "+name, float64(a.Errors[name]), float64(b.Errors[name]))
	}
	return p.err
}

// per divides; 0 divided by 0 is 0.
func per(x, y float64) float64 {
	if y == 0 {
		return 0
	}
	return x / y
}
