package network

import (
	"net/http"

	"shuultuur/admin/web"
	"shuultuur/lib/certificate"
	"shuultuur/text"
)

// OwnCertificateRoutes returns the routes of the certificate that the gateway's listeners have from an
// authority. status returns the zero value if none is ordered.
//
//	GET /certificate      how it is; HTML for browsers, else JSON
func OwnCertificateRoutes(site *web.Site, status func() certificate.Status) []web.Route {
	page := site.Page("own.html")
	return []web.Route{
		{Method: "GET", Path: "/certificate", Role: web.Operator,
			Link: web.LinkIn(web.Network, text.Mark("Own certificate")),
			Does: "the certificate of the gateway's listeners: who issued it, until when, and what an authority said", Gives: web.PageOrJSON,
			Handler: func(w http.ResponseWriter, r *http.Request) {
				s := status()
				if web.IsPage(r) {
					web.WritePage(w, page, http.StatusOK, s)
					return
				}
				if s.Names == nil {
					s.Names = []string{}
				}
				web.WriteJSON(w, http.StatusOK, s)
			}},
	}
}
