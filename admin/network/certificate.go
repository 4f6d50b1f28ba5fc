package network

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"rsc.io/qr"

	"shuultuur/admin/web"
	"shuultuur/intercept"
	"shuultuur/text"
)

// People install the root certificate from this page. It needs no password, because the
// certificate is no secret, and who needs it has no account yet. The page cannot reveal the
// key: an intercept.Root exports only certificates.

// CertificateRoutes returns the routes of the certificate.
//
//	GET /ca                how to install it; HTML
//	GET /ca/{file}         the certificate, in several forms
func CertificateRoutes(site *web.Site, root func() *intercept.Root, devices func() string) []web.Route {
	return []web.Route{
		{Method: "GET", Path: "/ca", Role: web.Anyone,
			Link: web.LinkIn(web.Network, text.Mark("Devices and certificate")),
			Does: "how to install the root certificate", Gives: "text/html",
			Handler: rootPage(site, root, devices)},
		{Method: "GET", Path: "/ca/{file}", Role: web.Anyone,
			Does: "the root certificate: root.pem, root.crt, root.cer or root.mobileconfig", Gives: web.AnyBytes,
			Handler: rootFile(root, devices)},
	}
}

// downloads are the files of the page, with the media type for each.
var downloads = map[string]struct{ format, kind string }{
	"root.pem":          {"pem", "application/x-pem-file"},
	"root.crt":          {"pem", "application/x-x509-ca-cert"},
	"root.cer":          {"der", "application/x-x509-ca-cert"},
	"root.mobileconfig": {"mobileconfig", "application/x-apple-aspen-config"},
}

func rootFile(root func() *intercept.Root, devices func() string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("file")
		if name == "address.svg" {
			showCode(w, forDevices(r, devices))
			return
		}
		d, ok := downloads[name]
		c := root()
		if !ok || c == nil {
			http.NotFound(w, r)
			return
		}
		b, err := c.Export(d.format, "")
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", d.kind)
		w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
		w.Header().Set("Cache-Control", "no-store") // it may be rotated
		_, _ = w.Write(b)                           // the client went away, so nobody can be told
	}
}

// links are the files of the page by format.
var links = map[string]string{"pem": "root.pem", "der": "root.cer", "mobileconfig": "root.mobileconfig"}

// forDevices returns the address at which a device is set up: that of the portal, or else this
// page; "" if no other machine can reach either.
func forDevices(r *http.Request, devices func() string) string {
	if devices != nil {
		if at := devices(); at != "" {
			return at + "/"
		}
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); strings.EqualFold(host, "localhost") || err == nil && addr.IsLoopback() {
		return ""
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host + "/ca"
}

// quiet is the width of the white margin around a code, in modules (ISO/IEC 18004).
const quiet = 4

// showCode draws an address as a code for cameras.
func showCode(w http.ResponseWriter, at string) {
	if at == "" || len(at) > 500 {
		http.Error(w, "no address of this gateway is for other devices: set listen.portal", http.StatusNotFound)
		return
	}
	c, err := qr.Encode(at, qr.M)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	n := c.Size + 2*quiet
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" shape-rendering="crispEdges"><path fill="#fff" d="M0 0h%dv%dH0z"/><path d="`, n, n, n, n)
	for y := range c.Size {
		for x := range c.Size {
			if c.Black(x, y) {
				fmt.Fprintf(&b, "M%d %dh1v1h-1z", x+quiet, y+quiet)
			}
		}
	}
	b.WriteString(`"/></svg>`)
	w.Header().Set("Content-Type", "image/svg+xml")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, b.String()) // it fails if the client has gone away
}

func rootPage(site *web.Site, root func() *intercept.Root, devices func() string) http.HandlerFunc {
	type system struct {
		intercept.Instructions
		Link string // "" for a format that only the command line offers
	}
	t := site.Page("ca.html")
	return func(w http.ResponseWriter, r *http.Request) {
		var page struct {
			Name, Until, Long, Short string
			Install                  []system
			Devices                  string // the address in the code
		}
		page.Devices = forDevices(r, devices)
		if c := root(); c != nil {
			page.Name, page.Until = c.Certificate.Subject.CommonName, c.Certificate.NotAfter.UTC().Format("2006-01-02")
			page.Long, page.Short = intercept.Fingerprints(c.Certificate)
			for _, i := range intercept.Install() {
				page.Install = append(page.Install, system{i, links[i.Format]})
			}
		}
		web.WritePage(w, t, http.StatusOK, page)
	}
}
