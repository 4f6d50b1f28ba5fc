package lists

import (
	"net/http"

	"shuultuur/admin/web"
	"shuultuur/check"
	"shuultuur/check/phrase"
	"shuultuur/text"
)

// checkRows is the number of rules that are shown, most expensive first. The page shows as many
// that were given up or are disabled.
const checkRows = 100

// CheckRoutes returns the routes of phrases and signatures.
//
//	GET /checks           odd lines of phrase lists, and what signature rules have
//	                      cost; HTML for browsers, else JSON
func CheckRoutes(site *web.Site, checks func() *check.Set) []web.Route {
	page := site.Page("checks.html")
	return []web.Route{
		{Method: "GET", Path: "/checks", Role: web.Operator,
			Link: web.LinkIn(web.Lists, text.Mark("Words")),
			Does: "odd lines of phrase lists, and what signature rules have cost", Gives: web.PageOrJSON,
			Handler: func(w http.ResponseWriter, r *http.Request) {
				set := checks()
				d := ChecksData{Remarks: append([]phrase.Remark{}, set.Remarks...), Phrases: set.Phrases(), Rules: []check.Profile{}, Buffers: []check.BufferProfile{}, Mistakes: []string{}}
				if s := set.Signature; s != nil {
					d.Signatures = true
					rules, buffers := s.Profiles()
					d.Tried, d.Buffers = len(rules), append(d.Buffers, buffers...)
					for i, p := range rules {
						if i < checkRows || (p.Over > 0 || p.Disabled) && len(d.Rules) < 2*checkRows {
							d.Rules = append(d.Rules, p)
						}
					}
					for _, m := range s.Mistakes() {
						d.Mistakes = append(d.Mistakes, m.Error())
					}
				}
				if web.IsPage(r) {
					web.WritePage(w, page, http.StatusOK, d)
					return
				}
				web.WriteJSON(w, http.StatusOK, d)
			}},
	}
}

// ChecksData is the contents of the page about phrases and signatures.
type ChecksData struct {
	Phrases    int                   `json:"phrases"` // lines of phrase lists
	Remarks    []phrase.Remark       `json:"remarks"` // lines that probably do not do what their author meant
	Signatures bool                  `json:"signatures"`
	Tried      int                   `json:"tried"` // rules
	Rules      []check.Profile       `json:"rules"` // the dearest
	Buffers    []check.BufferProfile `json:"buffers"`
	Mistakes   []string              `json:"mistakes"` // rules that are left out
}
