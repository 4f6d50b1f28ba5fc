package web

// A Graph is drawn by uPlot (static/graph.js) from a table, which people without a script, or
// who do not see, read.
type Graph struct {
	Name    string // of the table in the page
	Kind    string // "bars", which are stacked, or "lines"
	Scale   string // "log", or "" from zero
	Title   string
	Columns []GraphColumn
	Rows    []GraphRow
}

// A GraphColumn is a line of a [Graph] and its legend.
type GraphColumn struct{ Name, Colour, Unit string }

// A GraphRow has a text, which a script can read as a number, or "", for each column.
type GraphRow struct {
	At     string
	Values []string
}

// A Bar is a row of a chart of names.
type Bar struct {
	Name, Called, Filter string
	N                    int
	Width                float64 // in percent of the longest
}
