package events

import (
	"context"
	"encoding/csv"
	"net/http"
	"strconv"
	"time"

	"shuultuur/admin/web"
	"shuultuur/event"
	"shuultuur/lib/sheet"
)

// maxSheet is how many rows a table has at most, the newest.
const maxSheet = 10_000

// sheet answers with rows as a table for spreadsheets. What a spreadsheet would take for a formula
// begins with an apostrophe.
func (e *Events) sheet(w http.ResponseWriter, r *http.Request) {
	f, err := eventQuery{Filter: r.URL.Query().Get("filter"), Last: r.URL.Query().Get("last")}.filter(time.Now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), web.MaxAsk)
	defer cancel()
	var rows []event.Row
	for row, err := range e.Query(ctx, f, event.Page{Newest: true, Limit: maxSheet}) {
		if err != nil {
			http.Error(w, web.TooLong(ctx, err).Error(), web.StatusOfRecord(err))
			return
		}
		rows = append(rows, row)
	}
	h := w.Header()
	h.Set("Content-Type", "text/csv; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="activity.csv"`)
	h.Set("Cache-Control", "no-store")
	c := csv.NewWriter(w)
	_ = c.Write([]string{"time", "client", "user", "action", "policy", "rule", "category", "score", "method", "host", "address", "status", "bytes", "id"})
	for i := range rows {
		x := &rows[i]
		cells := []string{x.Time.Format(time.RFC3339), event.Client.Of(x), x.User, x.Action.String(), x.Policy, x.Rule, x.Category, strconv.Itoa(x.Score), x.Method, x.Host, x.URL, strconv.Itoa(x.Status), strconv.FormatInt(x.BytesOut, 10), x.ID}
		for k := range cells {
			cells[k] = sheet.Cell(cells[k])
		}
		_ = c.Write(cells)
	}
	c.Flush() // it fails if the client has gone away
}
