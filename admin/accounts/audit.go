package accounts

import (
	"net/http"
	"strconv"

	"shuultuur/admin/account"
	"shuultuur/admin/web"
	"shuultuur/text"
)

// AuditPerPage is how many entries of the audit log are shown at once.
const AuditPerPage = 100

// AuditRoutes returns the routes of the audit log.
//
//	GET /audit?before=SEQ  its entries, the newest first; HTML or JSON
//	GET /audit/verify      whether its chain holds
func (p *Pages) AuditRoutes() []web.Route {
	if p.Site.Audit == nil {
		return nil
	}
	page := p.Site.Page("audit.html")
	return []web.Route{
		{Method: "GET", Path: "/audit", Role: web.Owner,
			Link: web.LinkIn(web.System, text.Mark("Audit log")),
			Does: "the audit log, the newest first, 100 at once", Query: []web.Field{web.Optional("before", "only entries before this one")}, Gives: web.PageOrJSON,
			Handler: func(w http.ResponseWriter, r *http.Request) {
				before, _ := strconv.ParseInt(r.URL.Query().Get("before"), 10, 64)
				all, err := p.Site.Audit.Entries(before, AuditPerPage)
				if err != nil || !web.IsPage(r) {
					web.Answer(w, all, err)
					return
				}
				v, err := p.Site.Audit.Verify()
				if err != nil {
					v.Broken = err.Error()
				}
				d := struct {
					Entries []account.Entry
					Chain   account.Verification
					Older   int64
				}{all, v, 0}
				if len(all) == AuditPerPage {
					d.Older = all[len(all)-1].Seq
				}
				web.WritePage(w, page, http.StatusOK, d)
			}},
		{Method: "GET", Path: "/audit/verify", Role: web.Owner,
			Does: "whether the chain of the audit log holds",
			Handler: func(w http.ResponseWriter, r *http.Request) {
				v, err := p.Site.Audit.Verify()
				if err != nil {
					http.Error(w, err.Error(), http.StatusServiceUnavailable)
					return
				}
				web.WriteJSON(w, http.StatusOK, v)
			}},
	}
}
