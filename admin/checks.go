package admin

import (
	"net/http"

	"shuultuur/check"
	"shuultuur/check/phrase"
)

// checkRows is the number of rules that are shown, most expensive first. The page shows as many
// that were given up or are disabled.
const checkRows = 100

// checkRoutes returns the routes of phrases and signatures.
//
//	GET /checks           odd lines of phrase lists, and what signature rules have
//	                      cost; HTML for browsers, else JSON
func (p *Parts) checkRoutes() []route {
	if p.Checks == nil {
		return nil
	}
	page := pageOf("checks.html", p.Pause.notice)
	return []route{
		{"GET", "/checks", operator, func(w http.ResponseWriter, r *http.Request) {
			set := p.Checks()
			d := checksData{Remarks: append([]phrase.Remark{}, set.Remarks...), Phrases: set.Phrases(), Rules: []check.Profile{}, Buffers: []check.BufferProfile{}, Mistakes: []string{}}
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
			if isPage(r) {
				writePage(w, page, http.StatusOK, d)
				return
			}
			writeJSON(w, http.StatusOK, d)
		}},
	}
}

// checksData is the contents of the page about phrases and signatures.
type checksData struct {
	Phrases    int                   `json:"phrases"` // lines of phrase lists
	Remarks    []phrase.Remark       `json:"remarks"` // lines that probably do not do what their author meant
	Signatures bool                  `json:"signatures"`
	Tried      int                   `json:"tried"` // rules
	Rules      []check.Profile       `json:"rules"` // the dearest
	Buffers    []check.BufferProfile `json:"buffers"`
	Mistakes   []string              `json:"mistakes"` // rules that are left out
}
