package admin

import (
	"bytes"
	"html/template"
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

func rootFile(root func() *intercept.Root) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	})
}

var rootTemplate = template.Must(template.New("ca").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Root certificate</title>
<style>
:root { color-scheme: light dark }
body { max-width: 44rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.55 system-ui, sans-serif }
code { overflow-wrap: anywhere }
a.button { display: inline-block; margin: 0 .5rem .5rem 0; padding: .5rem 1rem; border: 2px solid; border-radius: .4rem; font-weight: 600; text-decoration: none }
dt { font-weight: 600 }
</style>
</head>
<body>
<h1>Root certificate</h1>
{{if .Name}}<p>The web filter of this network looks into encrypted connections. A device that trusts this certificate can use them as before.</p>
<p><a class="button" href="/ca/root.pem">PEM</a> <a class="button" href="/ca/root.cer">DER</a> <a class="button" href="/ca/root.mobileconfig">iPhone, iPad, Mac</a></p>
<dl>
<dt>Name</dt><dd>{{.Name}}</dd>
<dt>Good until</dt><dd>{{.Until}}</dd>
<dt>SHA-256</dt><dd><code>{{.Long}}</code></dd>
<dt>SHA-1</dt><dd><code>{{.Short}}</code></dd>
</dl>
<p>Compare the fingerprints with those your administrator gave you before you install it.</p>
{{range .Install}}<h2>{{.System}}</h2>
{{if .Link}}<p><a href="/ca/{{.Link}}" download="{{.File}}">{{.File}}</a></p>
{{end}}<ol>{{range .Steps}}<li>{{.}}</li>{{end}}</ol>
{{end}}{{else}}<p>This gateway does not look into encrypted connections: there is nothing to install.</p>
{{end}}</body>
</html>
`))

// links are the files of the page by format.
var links = map[string]string{"pem": "root.pem", "der": "root.cer", "mobileconfig": "root.mobileconfig"}

func rootPage(root func() *intercept.Root) http.Handler {
	type system struct {
		intercept.Instructions
		Link string // "" for a format that is only to be had at the command line
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
		var b bytes.Buffer
		if err := rootTemplate.Execute(&b, page); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		_, _ = w.Write(b.Bytes()) // the client went away: nobody to tell
	})
}
