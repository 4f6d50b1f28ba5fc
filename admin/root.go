package admin

import (
	_ "embed"
	"net/http"

	"shuultuur/intercept"
)

// The page from which people install the root certificate. It asks for no
// password: the certificate is no secret, and who needs it has nothing yet.
// The key is not here: an intercept.Root exports certificates alone.

// downloads are the files of the page by what a browser is told they are.
var downloads = map[string]struct{ format, kind string }{
	"root.pem":          {"pem", "application/x-pem-file"},
	"root.crt":          {"pem", "application/x-x509-ca-cert"},
	"root.cer":          {"der", "application/x-x509-ca-cert"},
	"root.mobileconfig": {"mobileconfig", "application/x-apple-aspen-config"},
}

func rootFile(root func() *intercept.Root) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("file")
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
		_, _ = w.Write(b)                           // the client went away: nobody to tell
	}
}

//go:embed ca.html
var rootHTML string

// links are the files of the page by format.
var links = map[string]string{"pem": "root.pem", "der": "root.cer", "mobileconfig": "root.mobileconfig"}

func rootPage(root func() *intercept.Root) http.HandlerFunc {
	type system struct {
		intercept.Instructions
		Link string // "" for a format that is only to be had at the command line
	}
	t := pageOf(rootHTML, noNotice)
	return func(w http.ResponseWriter, r *http.Request) {
		var page struct {
			Name, Until, Long, Short string
			Install                  []system
		}
		if c := root(); c != nil {
			page.Name, page.Until = c.Certificate.Subject.CommonName, c.Certificate.NotAfter.UTC().Format("2006-01-02")
			page.Long, page.Short = intercept.Fingerprints(c.Certificate)
			for _, i := range intercept.Install() {
				page.Install = append(page.Install, system{i, links[i.Format]})
			}
		}
		writePage(w, t, http.StatusOK, page)
	}
}
